/* Runs two loops of a compiled library and prints a hash of all bits of their results, which is the same on every platform:
       run_library LIBRARY
   Built and run by tools/release.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <windows.h>
#define OPEN(PATH) (void *)LoadLibraryA(PATH)
#define FIND(LIBRARY, NAME) (void *)GetProcAddress((HMODULE)(LIBRARY), NAME)
#else
#include <dlfcn.h>
#define OPEN(PATH) dlopen(PATH, RTLD_NOW)
#define FIND(LIBRARY, NAME) dlsym(LIBRARY, NAME)
#endif

#define N 1000
#define WIDTH 7
#define DEGREE 6

typedef void (*Wide)(int64_t, int64_t, int64_t, const int32_t *, const int32_t *, const int32_t *, const double *, const double *,
                     const double *, const double *, int64_t, const double *, double, const double *, double *);
typedef void (*Along)(int64_t, const double *, const double *, const double *, double, double *);

static double weight[N * DEGREE], scale[N], values[N * WIDTH], sums[N * WIDTH], along[3];
static int32_t order[N], start[N + 1], column[N * DEGREE];

static double drawn(void) { /* between 0 and 1 */
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

int main(int count, char **arguments) {
    void *library = count == 2 ? OPEN(arguments[1]) : NULL;
    if (!library) return fprintf(stderr, "usage: run_library LIBRARY that can be loaded\n"), 1;
    Wide wide = (Wide)FIND(library, "ebboost_wide_double");
    Along lengths = (Along)FIND(library, "ebboost_along");
    int64_t (*version)(void) = (int64_t (*)(void))FIND(library, "ebboost_sweep_version");
    if (!wide || !lengths || !version) return fprintf(stderr, "a function is missing\n"), 1;
    for (int i = 0; i < N; i++) {
        order[i] = i, start[i + 1] = (i + 1) * DEGREE, scale[i] = drawn();
        for (int k = 0; k < DEGREE; k++) column[i * DEGREE + k] = (int32_t)(drawn() * N), weight[i * DEGREE + k] = drawn();
        for (int k = 0; k < WIDTH; k++) values[i * WIDTH + k] = drawn() - 0.5;
    }
    wide(0, N, WIDTH, order, start, column, weight, scale, scale, NULL, 0, NULL, 0.0, values, sums);
    lengths(N, values, scale, sums, 1e-3, along);
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof sums; i++) hash = (hash ^ ((unsigned char *)sums)[i]) * 1099511628211u;
    for (size_t i = 0; i < sizeof along; i++) hash = (hash ^ ((unsigned char *)along)[i]) * 1099511628211u;
    printf("%d %016llx\n", (int)version(), (unsigned long long)hash);
    return 0;
}
