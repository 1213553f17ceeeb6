/* An iteration of conjugate gradients in three kernels, for one system (M + diag(shift)) x = b; see `solver.py`.

   Each block leaves its part of a sum in an array, and the next kernel adds these up in every block, so that no number goes by
   way of the CPU, and the order of additions is the same in every run. LANES, BATCH and THREADS are set when compiled. */

/* The sum over the threads of a block, in all of them. */
__device__ double of_block(double own)
{
    __shared__ double sums[THREADS / 32];
    for (int apart = 16; apart; apart /= 2)
        own += __shfl_down_sync(0xffffffffu, own, apart);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = own;
    __syncthreads();
    own = 0;
    for (int warp = 0; warp < THREADS / 32; warp++)
        own += sums[warp];
    return own;
}

__device__ double added(const double *parts)
{
    double own = 0;
    for (int block = threadIdx.x; block < gridDim.x; block += THREADS)
        own += parts[block];
    return of_block(own);
}

/* image = (M + diag(shift)) p, and the parts of p·image. */
extern "C" __global__ void multiply(size n_rows, MATRIX, const double *__restrict__ shift, const double *__restrict__ p,
                                    double *__restrict__ image, double *__restrict__ curved)
{
    const int lane = threadIdx.x % LANES;
    const size step = (size)gridDim.x * THREADS / LANES;
    double total = 0;
    for (size first = (size)blockIdx.x * THREADS / LANES; first < n_rows; first += step) {
        const size row = first + threadIdx.x / LANES;
        double sum = row < n_rows ? gathered(start[row] + lane, LANES, start[row + 1], column, value, p, 1) : 0;
        for (int apart = LANES / 2; apart; apart /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, apart, LANES);
        if (row < n_rows && !lane) {
            sum += shift ? shift[row] * p[row] : 0;
            image[row] = sum;
            total += sum * p[row];
        }
    }
    total = of_block(total);
    if (!threadIdx.x)
        curved[blockIdx.x] = total;
}

/* A step along p, and the parts of r·z and r·r, z = r / diagonal. */
extern "C" __global__ void forward(size n_rows, const double *__restrict__ inverse, const double *__restrict__ p,
                                   const double *__restrict__ image, const double *__restrict__ curved,
                                   const double *__restrict__ last, double *__restrict__ x, double *__restrict__ r,
                                   double *__restrict__ next, double *__restrict__ squares)
{
    const double bend = added(curved), slope = added(last);
    const double length = bend > 0 ? slope / bend : 0;
    double product = 0, square = 0;
    for (size row = (size)blockIdx.x * THREADS + threadIdx.x; row < n_rows; row += (size)gridDim.x * THREADS) {
        x[row] += length * p[row];
        const double rest = r[row] -= length * image[row];
        product += rest * inverse[row] * rest;
        square += rest * rest;
    }
    product = of_block(product);
    square = of_block(square);
    if (!threadIdx.x) {
        next[blockIdx.x] = product;
        squares[blockIdx.x] = square;
    }
}

/* The next direction p. */
extern "C" __global__ void turn(size n_rows, const double *__restrict__ inverse, const double *__restrict__ r,
                                const double *__restrict__ last, const double *__restrict__ next, double *__restrict__ p)
{
    const double before = added(last), after = added(next);
    const double kept = before > 0 ? after / before : 0;
    for (size row = (size)blockIdx.x * THREADS + threadIdx.x; row < n_rows; row += (size)gridDim.x * THREADS)
        p[row] = inverse[row] * r[row] + kept * p[row];
}
