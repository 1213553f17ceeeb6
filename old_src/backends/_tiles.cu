/* One pass over a large graph's edges on a GPU, as in `_sweep.cu`, for one column of float32 and weights of one.

   There each edge fetches 32 bytes from the cache to use 4 of them. Here a block of threads keeps the sums of a range of rows
   in its shared memory and takes the edges of that range in the order of their columns, so that neighbouring threads read
   neighbouring numbers. An edge is a word: its column within a tile of 65 536 above, its row within the range below.

   Edges reach a sum in any order, and only adding whole numbers is the same in any. So numbers are multiplied by the power of
   two that makes all less than 2^22, and split into a whole number and a rest in units of 2^-23: of either, 256 add up without
   overflow, which is as many neighbours as a row may have here. What is lost is less than 2^-44 of the largest number, where
   float32 loses 2^-24 of every sum. THREADS, BATCH and SPARE are set when this is compiled. */

typedef long long size;

/* The bits of the largest |v|, in whose order numbers are too; those of what is no number are the largest of all. */
extern "C" __global__ void largest(size n_rows, const float *__restrict__ v, unsigned *most)
{
    unsigned bits = 0;
    for (size row = (size)blockIdx.x * blockDim.x + threadIdx.x; row < n_rows; row += (size)gridDim.x * blockDim.x)
        bits = max(bits, __float_as_uint(fabsf(v[row])));
    for (int apart = 16; apart; apart /= 2)
        bits = max(bits, __shfl_down_sync(0xffffffffu, bits, apart));
    if (threadIdx.x % 32 == 0)
        atomicMax(most, bits);
}

/* The power of two that makes all numbers less than 2^22, by the exponent of the largest; 2^127 is the last there is. */
__device__ int shift(unsigned most)
{
    return min(148 - (int)(most >> 23), 127);
}

/* A v in whole numbers, the rests after them. Blocks share the chunks of BATCH*THREADS words evenly, whatever range is whose. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) tiles(size n_ranges, size rows, size n_rows, const int *__restrict__ first,
                                                            const int *__restrict__ tile, const unsigned *__restrict__ word,
                                                            const unsigned *__restrict__ most, const float *__restrict__ v,
                                                            int *__restrict__ out)
{
    extern __shared__ int sums[];
    const int held = rows + SPARE;
    int *rests = sums + held;
    const float unit = ldexpf(1.0f, shift(*most));
    const size n_chunks = first[n_ranges];
    const int ours = n_chunks * blockIdx.x / gridDim.x, theirs = n_chunks * (blockIdx.x + 1) / gridDim.x;
    for (int range = 0; range < n_ranges; range++) {
        const int begin = max(ours, first[range]), end = min(theirs, first[range + 1]);
        if (begin >= end)
            continue;
        for (int row = threadIdx.x; row < 2 * held; row += THREADS)
            sums[row] = 0;
        __syncthreads();
        for (int chunk = begin; chunk < end; chunk++) {
            const unsigned *next = word + (size)chunk * (BATCH * THREADS) + threadIdx.x;
            const float *from = v + ((size)tile[chunk] << 16);
            unsigned edge[BATCH]; /* several loads under way at once */
            float value[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                edge[k] = __ldcs(next + k * THREADS);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                value[k] = unit * __ldg(from + (edge[k] >> 16));
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                const int row = edge[k] & 0xffff, whole = __float2int_rn(value[k]);
                atomicAdd(sums + row, whole);
                atomicAdd(rests + row, __float2int_rn((value[k] - whole) * 0x1p23f));
            }
        }
        __syncthreads();
        for (int row = threadIdx.x; row < rows; row += THREADS) {
            int *at = out + range * rows + row;
            if (sums[row])
                atomicAdd(at, sums[row]);
            if (rests[row])
                atomicAdd(at + n_rows, rests[row]);
        }
        __syncthreads();
    }
}

/* scale*(A v) + keep*v + source from the sums; if anything in v is infinite or no number, all is no number. */
extern "C" __global__ void finished(size n_rows, const unsigned *__restrict__ most, const int *__restrict__ sums,
                                    const float *__restrict__ scale, const float *__restrict__ keep,
                                    const float *__restrict__ source, const float *__restrict__ v, float *__restrict__ out)
{
    const size row = (size)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n_rows)
        return;
    float sum = ldexpf(sums[row] + sums[n_rows + row] * 0x1p-23f, -shift(*most));
    if (!isfinite(__uint_as_float(*most)))
        sum = __uint_as_float(0x7fc00000);
    if (scale)
        sum *= scale[row];
    if (keep)
        sum += keep[row] * v[row];
    out[row] = source ? sum + source[row] : sum;
}
