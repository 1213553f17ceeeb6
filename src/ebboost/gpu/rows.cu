/* M v + factor*source of a sparse matrix stored by rows, for v of `width` columns.

   LANES threads share a row: COLUMNS of them take a column of v each, the others the entries in turn. Rows of more than `most`
   entries are left to `hubs`, a block of threads each: one of a million would hold up all others. Neither adds up in an order
   that changes from run to run. LANES, COLUMNS, BATCH and THREADS are set when this is compiled. */

typedef long long size;

#define MATRIX const size *__restrict__ start, const int *__restrict__ column, const double *__restrict__ value
#define VECTORS const double *__restrict__ v, double factor, const double *__restrict__ source, double *__restrict__ out

__device__ double gathered(size first, size step, size end, const int *__restrict__ column, const double *__restrict__ value,
                           const double *__restrict__ v, size width)
{
    double sum = 0;
    for (size entry = first; entry < end; entry += BATCH * step) {
        int at[BATCH]; /* several loads under way at once, the last ones too */
        double by[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const bool there = entry + k * step < end;
            at[k] = there ? __ldcs(column + entry + k * step) : -1;
            by[k] = there ? __ldcs(value + entry + k * step) : 0;
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (at[k] >= 0)
                sum += by[k] * __ldg(v + at[k] * width);
    }
    return sum;
}

extern "C" __global__ void rows(size n_rows, size width, size most, MATRIX, VECTORS)
{
    const size row = ((size)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const size own = (size)blockIdx.y * COLUMNS + lane % COLUMNS;
    double sum = 0;
    bool ours = row < n_rows && own < width;
    if (ours) {
        const size begin = start[row], end = start[row + 1];
        ours = end - begin <= most;
        if (ours)
            sum = gathered(begin + lane / COLUMNS, LANES / COLUMNS, end, column, value, v + own, width);
    }
    for (int apart = LANES / 2; apart >= COLUMNS; apart /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, apart, LANES);
    if (ours && lane < COLUMNS)
        out[row * width + own] = source ? sum + factor * source[row * width + own] : sum;
}

extern "C" __global__ void hubs(const int *__restrict__ rows, size width, MATRIX, VECTORS)
{
    __shared__ double sums[THREADS];
    const size row = rows[blockIdx.x];
    const int lane = threadIdx.x;
    const size own = (size)blockIdx.y * COLUMNS + lane % COLUMNS;
    sums[lane] = own < width ? gathered(start[row] + lane / COLUMNS, THREADS / COLUMNS, start[row + 1], column, value,
                                        v + own, width)
                             : 0;
    for (int apart = THREADS / 2; apart >= COLUMNS; apart /= 2) {
        __syncthreads();
        if (lane < apart)
            sums[lane] += sums[lane + apart];
    }
    if (lane < COLUMNS && own < width)
        out[row * width + own] = source ? sums[lane] + factor * source[row * width + own] : sums[lane];
}
