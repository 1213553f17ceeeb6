/* The values of new trees on every row of a table, one tree for each output.

   A node is left child, right child, column (its sign says where rows go that have no number there) and threshold, a leaf's
   children are negative and its value stands for the threshold. Only the columns on a row's own way down are read. */

typedef long long size;

extern "C" __global__ void values(size n_rows, size n_columns, const int *__restrict__ root, const int4 *__restrict__ nodes,
                                  const float *__restrict__ table, double *__restrict__ out)
{
    const size row = (size)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows)
        return;
    const int4 *tree = nodes + root[blockIdx.y];
    int4 here = __ldg(tree);
    while (here.x >= 0) {
        const float number = __ldg(table + row * n_columns + (here.z & 0x7fffffff));
        const bool left = isnan(number) ? here.z < 0 : number < __int_as_float(here.w);
        here = __ldg(tree + (left ? here.x : here.y));
    }
    out[row * gridDim.y + blockIdx.y] = __int_as_float(here.w);
}
