/* One sweep over a sparse matrix stored by rows: out = M v + factor * source, for some rows.

   v, source and out have `width` columns, one row after the other. Columns are swept 8, 4, 2 or 1
   at a time, so that their sums stay in registers; two sums each, so that the processor need not
   wait for one addition before it begins the next. */
#include <stdint.h>

#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

/* Raised with the one in __init__.py whenever a signature changes. */
PUBLIC int64_t ebboost_version(void) { return 1; }

#define ARGUMENTS(REAL)                                                                          \
    int64_t first, int64_t last, const int32_t *restrict start, const int32_t *restrict column,  \
        const REAL *restrict value, int64_t width, const REAL *restrict v, double factor,        \
        const REAL *restrict source, REAL *restrict out

#define COLUMNS(REAL, W)                                                                         \
    static void sweep_##REAL##_##W(ARGUMENTS(REAL)) {                                            \
        for (int64_t i = first; i < last; i++) {                                                 \
            REAL even[W], odd[W];                                                                \
            for (int c = 0; c < W; c++) {                                                        \
                even[c] = source ? (REAL)factor * source[i * width + c] : 0;                     \
                odd[c] = 0;                                                                      \
            }                                                                                    \
            const int32_t end = start[i + 1];                                                    \
            int32_t e = start[i];                                                                \
            for (; e + 1 < end; e += 2) {                                                        \
                const REAL *p = v + (int64_t)column[e] * width;                                  \
                const REAL *q = v + (int64_t)column[e + 1] * width;                              \
                const REAL a = value[e], b = value[e + 1];                                       \
                for (int c = 0; c < W; c++) {                                                    \
                    even[c] += a * p[c];                                                         \
                    odd[c] += b * q[c];                                                          \
                }                                                                                \
            }                                                                                    \
            if (e < end) {                                                                       \
                const REAL *p = v + (int64_t)column[e] * width;                                  \
                for (int c = 0; c < W; c++) even[c] += value[e] * p[c];                          \
            }                                                                                    \
            for (int c = 0; c < W; c++) out[i * width + c] = even[c] + odd[c];                   \
        }                                                                                        \
    }

#define SWEEP(REAL)                                                                              \
    COLUMNS(REAL, 1) COLUMNS(REAL, 2) COLUMNS(REAL, 3) COLUMNS(REAL, 4) COLUMNS(REAL, 8)         \
    PUBLIC void ebboost_sweep_##REAL(ARGUMENTS(REAL)) {                                          \
        int64_t step;                                                                            \
        for (int64_t c = 0; c < width; c += step) {                                              \
            const int64_t rest = width - c;                                                      \
            step = rest >= 8 ? 8 : rest >= 4 ? 4 : rest;                                         \
            (step == 8 ? sweep_##REAL##_8 : step == 4 ? sweep_##REAL##_4                         \
                : step == 3 ? sweep_##REAL##_3 : step == 2 ? sweep_##REAL##_2                    \
                : sweep_##REAL##_1)(                                                             \
                first, last, start, column, value, width, v + c, factor,                         \
                source ? source + c : source, out + c);                                          \
        }                                                                                        \
    }

SWEEP(double)
SWEEP(float)
