/* Runs the sweep of a compiled library and prints a hash of all bits of its result, which is the
   same on every platform:
       run_library LIBRARY
   Built and run by tools/release.py. */
#include <stdint.h>
#include <stdio.h>
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
#define DEGREE 5

typedef void (*Sweep)(int64_t, int64_t, const int32_t *, const int32_t *, const double *, int64_t,
                      const double *, double, const double *, double *);

static double weight[N * DEGREE], values[N * WIDTH], sums[N * WIDTH];
static int32_t start[N + 1], column[N * DEGREE];

static double drawn(void) { /* between 0 and 1 */
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

int main(int count, char **arguments) {
    void *library = count == 2 ? OPEN(arguments[1]) : NULL;
    if (!library) return fprintf(stderr, "usage: run_library LIBRARY that can be loaded\n"), 1;
    Sweep sweep = (Sweep)FIND(library, "ebboost_sweep_double");
    int64_t (*version)(void) = (int64_t (*)(void))FIND(library, "ebboost_version");
    if (!sweep || !version) return fprintf(stderr, "a function is missing\n"), 1;
    for (int i = 0; i < N; i++) {
        start[i + 1] = (i + 1) * DEGREE;
        for (int k = 0; k < DEGREE; k++) column[i * DEGREE + k] = (int32_t)(drawn() * N);
        for (int k = 0; k < DEGREE; k++) weight[i * DEGREE + k] = drawn();
        for (int k = 0; k < WIDTH; k++) values[i * WIDTH + k] = drawn() - 0.5;
    }
    sweep(0, N, start, column, weight, WIDTH, values, 0.3, values, sums);
    uint64_t hash = 14695981039346656037u;
    const unsigned char *bytes = (const unsigned char *)sums;
    for (size_t i = 0; i < sizeof sums; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    printf("%d %016llx\n", (int)version(), (unsigned long long)hash);
    return 0;
}
