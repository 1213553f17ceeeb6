/* One pass over a graph's edges on a GPU, scale*(A v) + keep*v + source: the counterpart of `kernels.c`.

   LANES threads share a row: COLUMNS of them take a column of v each, the others the neighbours in turn. Rows of more than
   `most` neighbours are left to `hubs`, a block of threads each: one of a million would hold up all others. Neither adds up in
   an order that changes from run to run. What bounds both is gathering v, which stays in the GPU's cache: indices are read past
   it. REAL, LANES, COLUMNS, WEIGHTED, BATCH and THREADS are set when this is compiled. */

typedef long long size;

__device__ REAL gathered(size first, size step, size end, const int *__restrict__ column, const REAL *__restrict__ weight,
                         const REAL *__restrict__ v, size width)
{
    REAL sum = 0;
    for (size edge = first; edge < end; edge += BATCH * step) {
        int at[BATCH]; /* several loads under way at once, the last ones too */
        REAL by[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const bool there = edge + k * step < end;
            at[k] = there ? __ldcs(column + edge + k * step) : -1;
            by[k] = WEIGHTED && there ? __ldcs(weight + edge + k * step) : 1;
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (at[k] >= 0)
                sum += by[k] * __ldg(v + at[k] * width);
    }
    return sum;
}

__device__ void written(size row, size at, REAL sum, const REAL *scale, const REAL *keep, const REAL *source, const REAL *v,
                        REAL *out)
{
    if (scale)
        sum *= scale[row];
    if (keep)
        sum += keep[row] * v[at];
    out[at] = source ? sum + source[at] : sum;
}

extern "C" __global__ void sweep(size n_rows, size width, size most, const size *__restrict__ start,
                                 const int *__restrict__ column, const REAL *__restrict__ weight,
                                 const REAL *__restrict__ scale, const REAL *__restrict__ keep,
                                 const REAL *__restrict__ source, const REAL *__restrict__ v, REAL *__restrict__ out)
{
    const size row = ((size)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const size own = (size)blockIdx.y * COLUMNS + lane % COLUMNS;
    REAL sum = 0;
    bool ours = row < n_rows && own < width;
    if (ours) {
        const size begin = start[row], end = start[row + 1];
        ours = end - begin <= most;
        if (ours)
            sum = gathered(begin + lane / COLUMNS, LANES / COLUMNS, end, column, weight, v + own, width);
    }
    for (int apart = LANES / 2; apart >= COLUMNS; apart /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, apart, LANES);
    if (ours && lane < COLUMNS)
        written(row, row * width + own, sum, scale, keep, source, v, out);
}

extern "C" __global__ void hubs(const int *__restrict__ rows, size width, const size *__restrict__ start,
                                const int *__restrict__ column, const REAL *__restrict__ weight,
                                const REAL *__restrict__ scale, const REAL *__restrict__ keep,
                                const REAL *__restrict__ source, const REAL *__restrict__ v, REAL *__restrict__ out)
{
    __shared__ REAL sums[THREADS];
    const size row = rows[blockIdx.x];
    const int lane = threadIdx.x;
    const size own = (size)blockIdx.y * COLUMNS + lane % COLUMNS;
    sums[lane] = own < width ? gathered(start[row] + lane / COLUMNS, THREADS / COLUMNS, start[row + 1], column, weight,
                                        v + own, width)
                             : 0;
    for (int apart = THREADS / 2; apart >= COLUMNS; apart /= 2) {
        __syncthreads();
        if (lane < apart)
            sums[lane] += sums[lane + apart];
    }
    if (lane < COLUMNS && own < width)
        written(row, row * width + own, sums[lane], scale, keep, source, v, out);
}
