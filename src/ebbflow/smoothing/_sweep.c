/* The loops that propagation is made of: one sweep over the edges, and conjugate gradients around it.

   out_i = scale_i * sum_j w_ij v_j + keep_i * v_i + source_i.

   The gathers v_j take the time, not the additions, so the loops are laid out around them. For one column of scores, nodes
   have new numbers, `order`, under which rows of one length follow each other, and the vectors are long enough for all rows to
   come in eights and one zero to follow the last: eight rows are summed side by side, their columns in turns, and rows that
   have ended read the zero at n. So where a row ends is rarely guessed wrong, which would cost more than the row. What much
   longer rows have beyond the turns of their eight, the rest, comes last. Columns are numbered in 16 bits where that is enough.
   For several columns of scores rows are read one by one, under the old numbers. Weights that are all one are not read
   (w = NULL), and so are terms that are not there. */
#include <stdint.h>
#include <math.h>

#define INLINE inline __attribute__((always_inline))
#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

/* Raised whenever a signature changes: a library left over from another build is then not used. */
PUBLIC int64_t ebbflow_sweep_version(void) { return 4; }

/* Edges as the loops read them: the turns of eights g are at start[g] .. start[g + 1], the rest of row rest_row[r] is at
   rest_start[r] .. rest_start[r + 1], rows in rising order. */
#define EDGES(REAL, INDEX)                                                                                              \
    const int64_t *restrict start, const INDEX *restrict column, const REAL *restrict w, int64_t n_rest,                \
        const int32_t *restrict rest_row, const int64_t *restrict rest_start
#define GIVEN start, column, w, n_rest, rest_row, rest_start

/* `weighted` is a constant to each caller, so that a loop is compiled for each case: tests inside the rows would double the
   time. */
#define DEFINE_SUMS(NAME, REAL, INDEX)                                                                                  \
    static INLINE void NAME##_eight(int64_t at, int64_t end, const INDEX *restrict column, const REAL *restrict w,      \
                                    const REAL *restrict v, REAL *restrict sum, int weighted) {                         \
        for (int k = 0; k < 8; k++) sum[k] = 0;                                                                         \
        for (; at < end; at += 8)                                                                                       \
            for (int k = 0; k < 8; k++) sum[k] += weighted ? w[at + k] * v[column[at + k]] : v[column[at + k]];         \
    }                                                                                                                   \
    static INLINE REAL NAME##_rest(int64_t at, int64_t end, const INDEX *restrict column, const REAL *restrict w,       \
                                   const REAL *restrict v, int weighted) {                                              \
        REAL a = 0, b = 0, c = 0, d = 0;                                                                                \
        for (; end - at >= 4; at += 4) {                                                                                \
            a += weighted ? w[at] * v[column[at]] : v[column[at]];                                                      \
            b += weighted ? w[at + 1] * v[column[at + 1]] : v[column[at + 1]];                                          \
            c += weighted ? w[at + 2] * v[column[at + 2]] : v[column[at + 2]];                                          \
            d += weighted ? w[at + 3] * v[column[at + 3]] : v[column[at + 3]];                                          \
        }                                                                                                               \
        for (; at < end; at++) a += weighted ? w[at] * v[column[at]] : v[column[at]];                                   \
        return (a + b) + (c + d);                                                                                       \
    }

/* Rows first .. last - 1 of one column of scores, `first` a multiple of eight. The vectors are in the new order. */
#define DEFINE_NARROW(NAME, REAL, INDEX)                                                                                \
    DEFINE_SUMS(NAME, REAL, INDEX)                                                                                      \
    static INLINE void NAME##_rows(int64_t first, int64_t last, EDGES(REAL, INDEX), const REAL *restrict scale,         \
                                   const REAL *restrict keep, const REAL *restrict source, const REAL *restrict v,      \
                                   REAL *restrict out, int weighted) {                                                  \
        for (int64_t i = first; i < last; i += 8) {                                                                     \
            REAL sum[8];                                                                                                \
            NAME##_eight(start[i / 8], start[i / 8 + 1], column, w, v, sum, weighted);                                  \
            for (int k = 0; k < 8; k++) out[i + k] = scale[i + k] * sum[k] + keep[i + k] * v[i + k] + source[i + k];    \
        }                                                                                                               \
        for (int64_t r = 0; r < n_rest; r++) {                                                                          \
            const int64_t i = rest_row[r];                                                                              \
            if (first <= i && i < last)                                                                                 \
                out[i] += scale[i] * NAME##_rest(rest_start[r], rest_start[r + 1], column, w, v, weighted);             \
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME(int64_t first, int64_t last, EDGES(REAL, INDEX), const REAL *scale, const REAL *keep,              \
                     const REAL *source, const REAL *v, REAL *out) {                                                    \
        if (w)                                                                                                          \
            NAME##_rows(first, last, GIVEN, scale, keep, source, v, out, 1);                                            \
        else                                                                                                            \
            NAME##_rows(first, last, GIVEN, scale, keep, source, v, out, 0);                                            \
    }

DEFINE_NARROW(ebbflow_float_narrow_16, float, uint16_t)
DEFINE_NARROW(ebbflow_float_narrow_32, float, int32_t)
DEFINE_NARROW(ebbflow_double_narrow_16, double, uint16_t)
DEFINE_NARROW(ebbflow_double_narrow_32, double, int32_t)

/* Write the rows of a matrix as the loops above read them, into columns that are all n and weights that are all 0. `place` is
   the new number of each node. */
#define DEFINE_ARRANGED(NAME, INDEX)                                                                                    \
    PUBLIC void NAME(int64_t n, const int32_t *restrict order, const int32_t *restrict place,                           \
                     const int32_t *restrict old_start, const int32_t *restrict old_column,                             \
                     const double *restrict old_w, const int64_t *restrict start, INDEX *restrict column,               \
                     double *restrict w, int64_t n_rest, const int32_t *restrict rest_row,                              \
                     const int64_t *restrict rest_start) {                                                              \
        int64_t r = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                               \
            const int64_t from = old_start[order[i]], length = old_start[order[i] + 1] - from;                          \
            const int64_t begin = start[i / 8] + i % 8, turns = (start[i / 8 + 1] - start[i / 8]) / 8;                  \
            const int64_t rest = r < n_rest && rest_row[r] == i ? rest_start[r++] : 0;                                  \
            for (int64_t k = 0; k < length; k++) {                                                                      \
                const int64_t to = k < turns ? begin + 8 * k : rest + k - turns;                                        \
                column[to] = (INDEX)place[old_column[from + k]];                                                        \
                if (w) w[to] = old_w[from + k];                                                                         \
            }                                                                                                           \
        }                                                                                                               \
    }

DEFINE_ARRANGED(ebbflow_arranged_16, uint16_t)
DEFINE_ARRANGED(ebbflow_arranged_32, int32_t)

/* Into the new order and back. */
#define DEFINE_ORDERS(NAME, REAL)                                                                                       \
    PUBLIC void NAME##_arrange(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict from,   \
                               REAL *restrict to) {                                                                     \
        for (int64_t i = first; i < last; i++) to[i] = from[order[i]];                                                  \
    }                                                                                                                   \
    PUBLIC void NAME##_put_back(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict from,  \
                                REAL *restrict to) {                                                                    \
        for (int64_t i = first; i < last; i++) to[order[i]] = from[i];                                                  \
    }

DEFINE_ORDERS(ebbflow_float, float)
DEFINE_ORDERS(ebbflow_double, double)

/* What steps begin with, v = root * scores and the source alpha * v, in the new order; and the way back, scores = v / root. */
#define DEFINE_ENDS(NAME, REAL)                                                                                         \
    PUBLIC void NAME##_begin(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict root,     \
                             REAL alpha, const REAL *restrict scores, REAL *restrict v, REAL *restrict source) {        \
        for (int64_t i = first; i < last; i++) {                                                                        \
            v[i] = root[i] * scores[order[i]];                                                                          \
            source[i] = alpha * v[i];                                                                                   \
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME##_end(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict root,       \
                           const REAL *restrict v, REAL *restrict scores) {                                             \
        for (int64_t i = first; i < last; i++) scores[order[i]] = v[i] / root[i];                                       \
    }

DEFINE_ENDS(ebbflow_float, float)
DEFINE_ENDS(ebbflow_double, double)

/* All of it by one thread. */
#define DEFINE_STEPS(NAME, BITS, REAL, INDEX)                                                                           \
    PUBLIC void NAME##_steps_##BITS(int64_t n, const int32_t *order, EDGES(REAL, INDEX), const REAL *root,              \
                                    const REAL *scale, const REAL *keep, REAL alpha, int64_t count,                     \
                                    const REAL *scores, REAL *v, REAL *source, REAL *other, REAL *out) {                \
        NAME##_begin(0, n, order, root, alpha, scores, v, source);                                                      \
        for (int64_t k = 0; k < count; k++) {                                                                           \
            NAME##_narrow_##BITS(0, n, GIVEN, scale, keep, source, v, other);                                           \
            REAL *swap = v;                                                                                             \
            v = other, other = swap;                                                                                    \
        }                                                                                                               \
        NAME##_end(0, n, order, root, v, out);                                                                          \
    }

DEFINE_STEPS(ebbflow_float, 16, float, uint16_t)
DEFINE_STEPS(ebbflow_float, 32, float, int32_t)
DEFINE_STEPS(ebbflow_double, 16, double, uint16_t)
DEFINE_STEPS(ebbflow_double, 32, double, int32_t)

/* Several columns of scores: `width` numbers lie side by side for each node, and order[r] is the node of row r. */
#define DEFINE_WIDE(NAME, REAL)                                                                                         \
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
            if (scale) sum[k] *= scale[i];                                                                              \
            if (keep) sum[k] += keep[i] * v[own + k];                                                                   \
            if (source) sum[k] += source[own + k];                                                                      \
            out[own + k] = sum[k];                                                                                      \
        }                                                                                                               \
    }                                                                                                                   \
    static INLINE void NAME##_rows(int64_t first, int64_t last, int64_t width, const int32_t *restrict order,           \
                                   const int32_t *restrict start, const int32_t *restrict column,                       \
                                   const REAL *restrict w, const REAL *restrict scale, const REAL *restrict keep,       \
                                   const REAL *restrict source, const REAL *restrict v, REAL *restrict out,             \
                                   int weighted) {                                                                      \
        for (int64_t r = first; r < last; r++) {                                                                        \
            const int64_t i = order[r];                                                                                 \
            int64_t k = 0;                                                                                              \
            for (; k + 8 <= width; k += 8)                                                                              \
                NAME##_block(i, k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 8); \
            for (; k + 4 <= width; k += 4)                                                                              \
                NAME##_block(i, k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 4); \
            for (; k < width; k++)                                                                                      \
                NAME##_block(i, k, width, start[r], start[r + 1], column, w, scale, keep, source, v, out, weighted, 1); \
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME(int64_t first, int64_t last, int64_t width, const int32_t *order, const int32_t *start,            \
                     const int32_t *column, const REAL *w, const REAL *scale, const REAL *keep, const REAL *source,     \
                     const REAL *v, REAL *out) {                                                                        \
        if (w)                                                                                                          \
            NAME##_rows(first, last, width, order, start, column, w, scale, keep, source, v, out, 1);                   \
        else                                                                                                            \
            NAME##_rows(first, last, width, order, start, column, w, scale, keep, source, v, out, 0);                   \
    }

DEFINE_WIDE(ebbflow_wide_float, float)
DEFINE_WIDE(ebbflow_wide_double, double)

/* Conjugate gradients, preconditioned by the diagonal, for (diag(diagonal) - A) z = right, all in the new order. `inverse` is
   1/diagonal. Enters with residual = right and starts from z = 0, leaves when the residual, each entry times size_i, is no
   longer than `target`. The loops do all that can be done in passing, so that every vector is read once, and add up in eight
   sums, as one addition would wait for the last. Returns the iterations made, and the length reached. */
static INLINE double total(const double *sum) {
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

#define DEFINE_SOLVE(NAME, SUMS, INDEX)                                                                                 \
    static INLINE int64_t NAME##_loop(int64_t n, EDGES(double, INDEX), const double *restrict diagonal,                 \
                                      const double *restrict inverse, const double *restrict size, double target,       \
                                      int64_t most, double *restrict z, double *restrict residual,                      \
                                      double *restrict direction, double *restrict image, double *restrict reached,     \
                                      int weighted) {                                                                   \
        double products[8] = {0}, lengths[8] = {0};                                                                     \
        for (int64_t i = n; i % 8; i++) residual[i] = 0; /* a solve that overflowed has left NaN here */                \
        for (int64_t i = 0; i < n; i += 8)                                                                              \
            for (int k = 0; k < 8; k++) {                                                                               \
                const double r = residual[i + k], sized = r * size[i + k];                                              \
                z[i + k] = 0;                                                                                           \
                direction[i + k] = r * inverse[i + k];                                                                  \
                products[k] += r * direction[i + k];                                                                    \
                lengths[k] += sized * sized;                                                                            \
            }                                                                                                           \
        double product = total(products), length = total(lengths);                                                      \
        int64_t done = 0;                                                                                               \
        for (; done < most && sqrt(length) > target; done++) {                                                          \
            double bends[8] = {0};                                                                                      \
            for (int64_t i = 0; i < n; i += 8) {                                                                        \
                double around[8];                                                                                       \
                SUMS##_eight(start[i / 8], start[i / 8 + 1], column, w, direction, around, weighted);                   \
                for (int k = 0; k < 8; k++) {                                                                           \
                    image[i + k] = diagonal[i + k] * direction[i + k] - around[k];                                      \
                    bends[k] += direction[i + k] * image[i + k];                                                        \
                }                                                                                                       \
            }                                                                                                           \
            for (int64_t r = 0; r < n_rest; r++) {                                                                      \
                const int64_t i = rest_row[r];                                                                          \
                const double more = SUMS##_rest(rest_start[r], rest_start[r + 1], column, w, direction, weighted);      \
                image[i] -= more;                                                                                       \
                bends[i % 8] -= direction[i] * more;                                                                    \
            }                                                                                                           \
            const double bend = total(bends), step = bend > 0 ? product / bend : 0, last = product;                     \
            for (int k = 0; k < 8; k++) products[k] = lengths[k] = 0;                                                   \
            for (int64_t i = 0; i < n; i += 8)                                                                          \
                for (int k = 0; k < 8; k++) {                                                                           \
                    z[i + k] += step * direction[i + k];                                                                \
                    const double r = residual[i + k] - step * image[i + k], sized = r * size[i + k];                    \
                    residual[i + k] = r;                                                                                \
                    products[k] += r * (r * inverse[i + k]);                                                            \
                    lengths[k] += sized * sized;                                                                        \
                }                                                                                                       \
            product = total(products), length = total(lengths);                                                         \
            const double turn = last > 0 ? product / last : 0;                                                          \
            for (int64_t i = 0; i < n; i++) direction[i] = residual[i] * inverse[i] + turn * direction[i];              \
        }                                                                                                               \
        *reached = sqrt(length);                                                                                        \
        return done;                                                                                                    \
    }                                                                                                                   \
    PUBLIC int64_t NAME(int64_t n, EDGES(double, INDEX), const double *diagonal, const double *inverse,                 \
                        const double *size, double target, int64_t most, double *z, double *residual,                   \
                        double *direction, double *image, double *reached) {                                            \
        return w ? NAME##_loop(n, GIVEN, diagonal, inverse, size, target, most, z, residual, direction, image, reached, \
                               1)                                                                                       \
                 : NAME##_loop(n, GIVEN, diagonal, inverse, size, target, most, z, residual, direction, image, reached, \
                               0);                                                                                      \
    }

DEFINE_SOLVE(ebbflow_solve_16, ebbflow_double_narrow_16, uint16_t)
DEFINE_SOLVE(ebbflow_solve_32, ebbflow_double_narrow_32, int32_t)
