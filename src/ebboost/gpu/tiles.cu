/* Sums of v over the neighbours of each row, for v of at most 1 in size, in whole numbers of 2^-23.

   In `rows.cu` each entry fetches 32 bytes from the cache to use 4 of them. Here a block of threads keeps the sums of a range of
   rows in its shared memory and takes the entries of that range in the order of their columns, so that neighbouring threads read
   neighbouring numbers. An entry is a word: its column within a tile of 65 536 above, its row within the range below. Entries
   reach a sum in any order, and only adding whole numbers is the same in any: 255 add up without overflow. THREADS, BATCH and
   SPARE are set when this is compiled. */

typedef long long size;

/* Blocks share the chunks of BATCH*THREADS words evenly, whatever range is whose. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) tiles(size n_ranges, size rows, const int *__restrict__ first,
                                                            const int *__restrict__ tile, const unsigned *__restrict__ word,
                                                            const float *__restrict__ v, int *__restrict__ out)
{
    extern __shared__ int sums[];
    const size n_chunks = first[n_ranges];
    const int ours = n_chunks * blockIdx.x / gridDim.x, theirs = n_chunks * (blockIdx.x + 1) / gridDim.x;
    for (int range = 0; range < n_ranges; range++) {
        const int begin = max(ours, first[range]), end = min(theirs, first[range + 1]);
        if (begin >= end)
            continue;
        for (int row = threadIdx.x; row < rows + SPARE; row += THREADS)
            sums[row] = 0;
        __syncthreads();
        for (int chunk = begin; chunk < end; chunk++) {
            const unsigned *next = word + (size)chunk * (BATCH * THREADS) + threadIdx.x;
            const float *from = v + ((size)tile[chunk] << 16);
            unsigned entry[BATCH]; /* several loads under way at once */
            float value[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                entry[k] = __ldcs(next + k * THREADS);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                value[k] = __ldg(from + (entry[k] >> 16));
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                atomicAdd(sums + (entry[k] & 0xffff), __float2int_rn(value[k] * 0x1p23f));
        }
        __syncthreads();
        for (int row = threadIdx.x; row < rows; row += THREADS)
            if (sums[row])
                atomicAdd(out + range * rows + row, sums[row]);
        __syncthreads();
    }
}
