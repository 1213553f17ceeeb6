/* The loops that propagation is made of: one sweep over the edges, and conjugate gradients around it.

   out_i = scale_i * sum_j w_ij v_j + keep_i * v_i + source_i, for i = row[first], ..., row[last-1] and `width` columns.
   Rows come in an order that puts those of one length together: guessing wrong where a row ends costs more than the row.
   Weights that are all one are not read (w = NULL), and so are terms that are not there. Four sums run side by side in
   a row, because the gathers, not the additions, take the time. Written once for float and double. */
#include <stdint.h>
#include <math.h>

#define INLINE inline __attribute__((always_inline))
#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

/* Raised whenever a signature changes: a library left over from another build is then not used. */
PUBLIC int64_t ebbflow_sweep_version(void) { return 2; }

/* A row's sum, and a range of rows. Each caller passes constants for `weighted`, `kept` and `sourced`, so that a loop is
   compiled for each case: tests inside the rows would double the time. */
#define DEFINE_SWEEP(NAME, REAL)                                                                                        \
    static INLINE REAL NAME##_row(int32_t at, int32_t end, const int32_t *restrict column, const REAL *restrict w,      \
                                  const REAL *restrict v, int weighted) {                                               \
        REAL a = 0, b = 0, c = 0, d = 0;                                                                                \
        for (; end - at >= 4; at += 4) {                                                                                \
            a += weighted ? w[at] * v[column[at]] : v[column[at]];                                                      \
            b += weighted ? w[at + 1] * v[column[at + 1]] : v[column[at + 1]];                                          \
            c += weighted ? w[at + 2] * v[column[at + 2]] : v[column[at + 2]];                                          \
            d += weighted ? w[at + 3] * v[column[at + 3]] : v[column[at + 3]];                                          \
        }                                                                                                               \
        for (; at < end; at++) a += weighted ? w[at] * v[column[at]] : v[column[at]];                                   \
        return (a + b) + (c + d);                                                                                       \
    }                                                                                                                   \
    static INLINE void NAME##_narrow(int64_t first, int64_t last, const int32_t *restrict row, const int32_t *restrict start,                        \
                                     const int32_t *restrict column, const REAL *restrict w,                            \
                                     const REAL *restrict scale, const REAL *restrict keep,                             \
                                     const REAL *restrict source, const REAL *restrict v, REAL *restrict out,           \
                                     int weighted, int kept, int sourced) {                                             \
        for (int64_t at = first; at < last; at++) {                                                                     \
            const int32_t i = row[at];                                                                                  \
            REAL sum = scale[i] * NAME##_row(start[at], start[at + 1], column, w, v, weighted);                         \
            if (kept) sum += keep[i] * v[i];                                                                            \
            if (sourced) sum += source[i];                                                                              \
            out[i] = sum;                                                                                               \
        }                                                                                                               \
    }                                                                                                                   \
    static INLINE void NAME##_block(int64_t i, int64_t from, int64_t width, int32_t at, int32_t end,                    \
                                    const int32_t *restrict column, const REAL *restrict w,                             \
                                    const REAL *restrict scale, const REAL *restrict keep,                              \
                                    const REAL *restrict source, const REAL *restrict v, REAL *restrict out,            \
                                    int weighted, const int size) {                                                     \
        REAL sum[8] = {0};                                                                                              \
        for (; at < end; at++) {                                                                                        \
            const REAL *restrict other = v + (int64_t)column[at] * width + from;                                        \
            for (int k = 0; k < size; k++) sum[k] += weighted ? w[at] * other[k] : other[k];                            \
        }                                                                                                               \
        const int64_t own = i * width + from;                                                                           \
        for (int k = 0; k < size; k++) {                                                                                \
            sum[k] *= scale[i];                                                                                         \
            if (keep) sum[k] += keep[i] * v[own + k];                                                                   \
            if (source) sum[k] += source[own + k];                                                                      \
            out[own + k] = sum[k];                                                                                      \
        }                                                                                                               \
    }                                                                                                                   \
    static INLINE void NAME##_wide(int64_t first, int64_t last, int64_t width, const int32_t *restrict row,             \
                                   const int32_t *restrict start,                                                       \
                                   const int32_t *restrict column, const REAL *restrict w, const REAL *restrict scale,  \
                                   const REAL *restrict keep, const REAL *restrict source, const REAL *restrict v,      \
                                   REAL *restrict out, int weighted) {                                                  \
        for (int64_t r = first; r < last; r++) {                                                                        \
            int64_t k = 0;                                                                                              \
            for (; k + 8 <= width; k += 8)                                                                              \
                NAME##_block(row[r], k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 8);\
            for (; k + 4 <= width; k += 4)                                                                              \
                NAME##_block(row[r], k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 4);\
            for (; k < width; k++)                                                                                      \
                NAME##_block(row[r], k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 1);\
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME(int64_t first, int64_t last, int64_t width, const int32_t *row, const int32_t *start,              \
                     const int32_t *column, const REAL *w, const REAL *scale, const REAL *keep, const REAL *source,     \
                     const REAL *v, REAL *out) {                                                                                       \
        if (width == 1 && !w && keep && source)                                                                         \
            NAME##_narrow(first, last, row, start, column, w, scale, keep, source, v, out, 0, 1, 1);                         \
        else if (width == 1 && !w && keep)                                                                              \
            NAME##_narrow(first, last, row, start, column, w, scale, keep, source, v, out, 0, 1, 0);                         \
        else if (width == 1 && w && keep && source)                                                                     \
            NAME##_narrow(first, last, row, start, column, w, scale, keep, source, v, out, 1, 1, 1);                         \
        else if (w)                                                                                                     \
            NAME##_wide(first, last, width, row, start, column, w, scale, keep, source, v, out, 1);                          \
        else                                                                                                            \
            NAME##_wide(first, last, width, row, start, column, w, scale, keep, source, v, out, 0);                          \
    }

DEFINE_SWEEP(ebbflow_sweep_float, float)
DEFINE_SWEEP(ebbflow_sweep_double, double)

/* Conjugate gradients, preconditioned by the diagonal, for (diag(diagonal) - A) z = right. `inverse` is 1/diagonal.
   Enters with residual = right and starts from z = 0, leaves when the residual, each entry times size_i, is no longer than
   `target`. The loops do all that can be done in passing, so that every vector is read once. Returns the iterations made,
   and the length reached. */
static INLINE int64_t solve(int64_t n, const int32_t *restrict row, const int32_t *restrict start, const int32_t *restrict column,
                            const double *restrict w, const double *restrict diagonal,
                            const double *restrict inverse, const double *restrict size, double target, int64_t most,
                            double *restrict z, double *restrict residual, double *restrict direction,
                            double *restrict image, double *restrict reached, int weighted) {
    double product = 0, length = 0;
    for (int64_t i = 0; i < n; i++) {
        const double r = residual[i];
        z[i] = 0;
        direction[i] = r * inverse[i];
        product += r * direction[i];
        length += r * size[i] * r * size[i];
    }
    int64_t done = 0;
    for (; done < most && sqrt(length) > target; done++) {
        double bend = 0;
        for (int64_t at = 0; at < n; at++) {
            const int32_t i = row[at];
            const double around = ebbflow_sweep_double_row(start[at], start[at + 1], column, w, direction, weighted);
            image[i] = diagonal[i] * direction[i] - around;
            bend += direction[i] * image[i];
        }
        const double step = bend > 0 ? product / bend : 0, last = product;
        product = length = 0;
        for (int64_t i = 0; i < n; i++) {
            z[i] += step * direction[i];
            const double r = residual[i] - step * image[i];
            residual[i] = r;
            product += r * (r * inverse[i]);
            length += r * size[i] * r * size[i];
        }
        const double turn = last > 0 ? product / last : 0;
        for (int64_t i = 0; i < n; i++) direction[i] = residual[i] * inverse[i] + turn * direction[i];
    }
    *reached = sqrt(length);
    return done;
}

PUBLIC int64_t ebbflow_conjugate_gradients(int64_t n, const int32_t *row, const int32_t *start, const int32_t *column, const double *w,
                                           const double *diagonal, const double *inverse, const double *size,
                                           double target, int64_t most, double *z, double *residual,
                                           double *direction, double *image, double *reached) {
    return w ? solve(n, row, start, column, w, diagonal, inverse, size, target, most, z, residual, direction, image, reached, 1)
             : solve(n, row, start, column, w, diagonal, inverse, size, target, most, z, residual, direction, image, reached, 0);
}
