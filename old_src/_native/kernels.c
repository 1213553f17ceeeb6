/* The loops that propagation is made of: one sweep over the edges, and conjugate gradients around it.

   out_i = scale_i * sum_j w_ij v_j + keep_i * v_i + source_i.

   The gathers v_j take the time, not the additions, so the loops are laid out around them. For one column of scores, nodes
   have new numbers, `order`, and the vectors are long enough for all nodes to come in eights and one zero to follow the last.
   Eight rows of about one length are summed side by side, their columns in turns, and rows that have ended read the zero at n.
   So where a row ends is rarely guessed wrong, which would cost more than the row. What much longer rows have beyond the turns
   of their eight, the rest, comes last. Columns are numbered in 16 bits where that is enough.
   Where adjacent nodes share neighbours, as in graphs of near points, a vector goes on behind its `size` entries: with
   the sums of its pairs, nodes 2p and 2p + 1, then with those of its fours, two pairs each. A row that has all nodes of one
   reads their sum, which about halves the gathers. Order then goes by what nodes share, not by length: the i-th row to be summed
   is that of node row[i]. Elsewhere size is 0 and row is NULL: the i-th row is that of node i.
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
PUBLIC int64_t ebboost_sweep_version(void) { return 14; }

/* Rows that are summed before the terms are added to them: what they write stays in the nearest cache. */
#define WINDOW 4096

/* Edges as the loops read them: the turns of the g-th eight are at start[g] .. start[g + 1], the rest of the rest_row[r]-th row
   is at rest_start[r] .. rest_start[r + 1], in rising order. */
#define EDGES(REAL, INDEX)                                                                                              \
    const int64_t *restrict start, const INDEX *restrict column, const REAL *restrict w, int64_t n_rest,                \
        const int32_t *restrict rest_row, const int64_t *restrict rest_start, int64_t size, const int32_t *restrict row
#define PASSED start, column, w, n_rest, rest_row, rest_start, size, row

/* What follows a vector: the sums of its pairs and of its fours, for entries first .. last - 1, `first` a multiple of eight. */
#define DEFINE_SHARED(NAME, REAL)                                                                                       \
    static INLINE void NAME##_shared(int64_t first, int64_t last, int64_t size, REAL *restrict v) {                     \
        REAL *restrict pair = v + size, *restrict four = pair + size / 2;                                               \
        const int64_t end = (last + 7) / 8 * 2;                                                                         \
        for (int64_t i = first / 2; i < 2 * end; i++) pair[i] = v[2 * i] + v[2 * i + 1];                                \
        for (int64_t i = first / 4; i < end; i++) four[i] = pair[2 * i] + pair[2 * i + 1];                              \
    }

DEFINE_SHARED(ebboost_float, float)
DEFINE_SHARED(ebboost_double, double)

/* The same again, after some entries have changed. */
PUBLIC void ebboost_float_renew(int64_t first, int64_t last, int64_t size, float *v) {
    ebboost_float_shared(first, last, size, v);
}

PUBLIC void ebboost_double_renew(int64_t first, int64_t last, int64_t size, double *v) {
    ebboost_double_shared(first, last, size, v);
}

/* The sums over the neighbours of the rows first .. last - 1, both multiples of the window or the end; r is the first rest that
   is not of an earlier row, and the next such is returned. `weighted` is a constant to each caller, so that a loop is compiled
   for each case: tests inside the rows would double the time. */
#define DEFINE_SUMS(NAME, REAL, INDEX)                                                                                  \
    static INLINE int64_t NAME##_sums(int64_t first, int64_t last, int64_t r, EDGES(REAL, INDEX),                       \
                                      const REAL *restrict v, REAL *restrict out, int weighted) {                       \
        (void)size;                                                                                                     \
        for (int64_t i = first; i < last; i += 8) {                                                                     \
            const int64_t end = start[i / 8 + 1];                                                                       \
            REAL sum[8] = {0};                                                                                          \
            for (int64_t at = start[i / 8]; at < end; at += 8)                                                          \
                for (int k = 0; k < 8; k++) sum[k] += weighted ? w[at + k] * v[column[at + k]] : v[column[at + k]];     \
            if (row)                                                                                                    \
                for (int k = 0; k < 8; k++) out[row[i + k]] = sum[k];                                                   \
            else                                                                                                        \
                for (int k = 0; k < 8; k++) out[i + k] = sum[k];                                                        \
        }                                                                                                               \
        for (; r < n_rest && rest_row[r] < last; r++) {                                                                 \
            int64_t at = rest_start[r];                                                                                 \
            const int64_t end = rest_start[r + 1], i = row ? row[rest_row[r]] : rest_row[r];                            \
            REAL a = 0, b = 0, c = 0, d = 0;                                                                            \
            for (; end - at >= 4; at += 4) {                                                                            \
                a += weighted ? w[at] * v[column[at]] : v[column[at]];                                                  \
                b += weighted ? w[at + 1] * v[column[at + 1]] : v[column[at + 1]];                                      \
                c += weighted ? w[at + 2] * v[column[at + 2]] : v[column[at + 2]];                                      \
                d += weighted ? w[at + 3] * v[column[at + 3]] : v[column[at + 3]];                                      \
            }                                                                                                           \
            for (; at < end; at++) a += weighted ? w[at] * v[column[at]] : v[column[at]];                               \
            out[i] += (a + b) + (c + d);                                                                                \
        }                                                                                                               \
        return r;                                                                                                       \
    }

/* Rows first .. last - 1 of one column of scores, `first` a multiple of the window. The vectors are in the new order. */
#define DEFINE_NARROW(NAME, REAL, INDEX, BITS)                                                                          \
    DEFINE_SUMS(NAME##_narrow_##BITS, REAL, INDEX)                                                                      \
    static INLINE void NAME##_rows_##BITS(int64_t first, int64_t last, EDGES(REAL, INDEX), const REAL *restrict scale,  \
                                          const REAL *restrict keep, const REAL *restrict source,                       \
                                          const REAL *restrict v, REAL *restrict out, int weighted) {                   \
        int64_t r = 0;                                                                                                  \
        while (r < n_rest && rest_row[r] < first) r++;                                                                  \
        for (; first < last; first += WINDOW) {                                                                         \
            const int64_t end = first + WINDOW < last ? first + WINDOW : last;                                          \
            r = NAME##_narrow_##BITS##_sums(first, end, r, PASSED, v, out, weighted);                                    \
            for (int64_t i = first; i < end; i += 8)                                                                    \
                for (int k = 0; k < 8; k++)                                                                             \
                    out[i + k] = scale[i + k] * out[i + k] + keep[i + k] * v[i + k] + source[i + k];                    \
            if (size) NAME##_shared(first, end, size, out);                                                             \
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME##_narrow_##BITS(int64_t first, int64_t last, EDGES(REAL, INDEX), const REAL *scale,                \
                                     const REAL *keep, const REAL *source, const REAL *v, REAL *out) {                  \
        if (w)                                                                                                          \
            NAME##_rows_##BITS(first, last, PASSED, scale, keep, source, v, out, 1);                                     \
        else                                                                                                            \
            NAME##_rows_##BITS(first, last, PASSED, scale, keep, source, v, out, 0);                                     \
    }

DEFINE_NARROW(ebboost_float, float, uint16_t, 16)
DEFINE_NARROW(ebboost_float, float, int32_t, 32)
DEFINE_NARROW(ebboost_double, double, uint16_t, 16)
DEFINE_NARROW(ebboost_double, double, int32_t, 32)

/* A row of some 32 columns will be read soon, from anywhere. */
static INLINE void soon(const int32_t *column) {
    __builtin_prefetch(column);
    __builtin_prefetch(column + 16);
}

/* What a row reads, under the new numbers `position`: its columns, or, where sums follow the vectors, sums of fours, sums of pairs
   and what is left of its columns. `inside` has a number for each four, all 0, and is left so; `entries` has room for one more
   than the row has columns. Returns how many. */
static INLINE int64_t pieces(int64_t node, const int32_t *restrict start, const int32_t *restrict column,
                             const int32_t *restrict position, int64_t size, uint8_t *restrict inside,
                             int32_t *restrict entries) {
    const int64_t at = start[node], end = start[node + 1];
    int64_t n = 0;
    if (!size) {
        for (int64_t k = at; k < end; k++) entries[n++] = position[column[k]];
        return n;
    }
    for (int64_t k = at; k < end; k++) inside[position[column[k]] / 4] |= (uint8_t)(1 << position[column[k]] % 4);
    for (int64_t k = at; k < end; k++) {
        const int32_t four = position[column[k]] / 4;
        const int all = inside[four];
        if (!all) continue;
        inside[four] = 0;
        if (all == 15) {
            entries[n++] = (int32_t)(size + size / 2 + four);
            continue;
        }
        for (int half = 0; half < 2; half++) {
            const int both = all >> 2 * half & 3;
            const int32_t first = 4 * four + 2 * half;
            entries[n] = both == 3 ? (int32_t)(size + first / 2) : first + both / 2;
            n += both > 0;
        }
    }
    return n;
}

/* How many each row reads, by the new numbers. */
PUBLIC void ebboost_pieces(int64_t n, const int32_t *restrict order, const int32_t *restrict position,
                           const int32_t *restrict start, const int32_t *restrict column, int64_t size,
                           uint8_t *restrict inside, int32_t *restrict entries, int32_t *restrict counts) {
    for (int64_t i = 0; i < n; i++) {
        if (i + 8 < n) soon(column + start[order[i + 8]]);
        counts[i] = (int32_t)pieces(order[i], start, column, position, size, inside, entries);
    }
}

/* Write the rows of a matrix as the loops above read them, into columns that are all n and weights that are all 0. `entries` has
   room for one more than the longest row. */
#define DEFINE_ARRANGED(NAME, INDEX)                                                                                    \
    PUBLIC void NAME(int64_t n, const int32_t *restrict order, const int32_t *restrict position,                           \
                     const int32_t *restrict old_start, const int32_t *restrict old_column,                             \
                     const double *restrict old_w, uint8_t *restrict inside, int32_t *restrict entries,                   \
                     const int64_t *restrict start, INDEX *restrict column, double *restrict w, int64_t n_rest,         \
                     const int32_t *restrict rest_row, const int64_t *restrict rest_start, int64_t size,                \
                     const int32_t *restrict row) {                                                                     \
        int64_t r = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                               \
            const int64_t node = order[row ? row[i] : i], from = old_start[node];                                       \
            if (i + 8 < n) soon(old_column + old_start[order[row ? row[i + 8] : i + 8]]);                               \
            const int64_t length = pieces(node, old_start, old_column, position, size, inside, entries);                     \
            const int64_t begin = start[i / 8] + i % 8, turns = (start[i / 8 + 1] - start[i / 8]) / 8;                  \
            const int64_t rest = r < n_rest && rest_row[r] == i ? rest_start[r++] : 0;                                  \
            for (int64_t k = 0; k < length; k++) {                                                                      \
                const int64_t to = k < turns ? begin + 8 * k : rest + k - turns;                                        \
                column[to] = (INDEX)entries[k];                                                                           \
                if (w) w[to] = old_w[from + k];                                                                         \
            }                                                                                                           \
        }                                                                                                               \
    }

DEFINE_ARRANGED(ebboost_arranged_16, uint16_t)
DEFINE_ARRANGED(ebboost_arranged_32, int32_t)

/* Into the new order and back. */
#define DEFINE_ORDERS(NAME, REAL)                                                                                       \
    PUBLIC void NAME##_arrange(int64_t first, int64_t last, int64_t size, const int32_t *restrict order,                \
                               const REAL *restrict from, REAL *restrict to) {                                          \
        for (int64_t i = first; i < last; i++) to[i] = from[order[i]];                                                  \
        if (size) NAME##_shared(first, last, size, to);                                                                 \
    }                                                                                                                   \
    PUBLIC void NAME##_put_back(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict from,  \
                                REAL *restrict to) {                                                                    \
        for (int64_t i = first; i < last; i++) to[order[i]] = from[i];                                                  \
    }

DEFINE_ORDERS(ebboost_float, float)
DEFINE_ORDERS(ebboost_double, double)

/* What steps begin with, v = root * scores and the source alpha * v, in the new order; and the way back, scores = v / root. */
#define DEFINE_ENDS(NAME, REAL)                                                                                         \
    PUBLIC void NAME##_begin(int64_t first, int64_t last, int64_t size, const int32_t *restrict order,                  \
                             const REAL *restrict root, REAL alpha, const REAL *restrict scores, REAL *restrict v,      \
                             REAL *restrict source) {                                                                   \
        for (int64_t i = first; i < last; i++) {                                                                        \
            v[i] = root[i] * scores[order[i]];                                                                          \
            source[i] = alpha * v[i];                                                                                   \
        }                                                                                                               \
        if (size) NAME##_shared(first, last, size, v);                                                                  \
    }                                                                                                                   \
    PUBLIC void NAME##_end(int64_t first, int64_t last, const int32_t *restrict order, const REAL *restrict root,       \
                           REAL *restrict v, REAL *restrict scores) {                                                   \
        for (int64_t i = first; i < last; i++) v[i] /= root[i]; /* four at a time, as they cannot be put back */        \
        for (int64_t i = first; i < last; i++) scores[order[i]] = v[i];                                                 \
    }

DEFINE_ENDS(ebboost_float, float)
DEFINE_ENDS(ebboost_double, double)

/* All of it by one thread. */
#define DEFINE_STEPS(NAME, BITS, REAL, INDEX)                                                                           \
    PUBLIC void NAME##_steps_##BITS(int64_t n, const int32_t *order, EDGES(REAL, INDEX), const REAL *root,              \
                                    const REAL *scale, const REAL *keep, REAL alpha, int64_t count,                     \
                                    const REAL *scores, REAL *v, REAL *source, REAL *other, REAL *out) {                \
        NAME##_begin(0, n, size, order, root, alpha, scores, v, source);                                                \
        for (int64_t k = 0; k < count; k++) {                                                                           \
            NAME##_narrow_##BITS(0, n, PASSED, scale, keep, source, v, other);                                           \
            REAL *swap = v;                                                                                             \
            v = other, other = swap;                                                                                    \
        }                                                                                                               \
        NAME##_end(0, n, order, root, v, out);                                                                          \
    }

DEFINE_STEPS(ebboost_float, 16, float, uint16_t)
DEFINE_STEPS(ebboost_float, 32, float, int32_t)
DEFINE_STEPS(ebboost_double, 16, double, uint16_t)
DEFINE_STEPS(ebboost_double, 32, double, int32_t)

/* Several columns of scores: `width` numbers lie side by side for each node. Row r is that of node order[r]; edges are read
   where they are, as a row's own position is one gather among many. The rows of the source are `stride` apart; with `root` it
   is alpha root_i source_i, so that steps need no copy of what they begin with. */
#define DEFINE_WIDE(NAME, REAL)                                                                                         \
    static INLINE void NAME##_block(int64_t i, int64_t from, int64_t width, int32_t at, int32_t end,                    \
                                    const int32_t *restrict column, const REAL *restrict w,                             \
                                    const REAL *restrict scale, const REAL *restrict keep,                              \
                                    const REAL *restrict source, int64_t stride, const REAL *restrict root, REAL alpha, \
                                    const REAL *restrict v, REAL *restrict out, int weighted, const int size) {         \
        REAL sum[8] = {0};                                                                                              \
        for (; at < end; at++) {                                                                                        \
            const REAL *restrict other = v + (int64_t)column[at] * width + from;                                        \
            for (int k = 0; k < size; k++) sum[k] += weighted ? w[at] * other[k] : other[k];                            \
        }                                                                                                               \
        const int64_t own = i * width + from, from_source = i * stride + from;                                                \
        for (int k = 0; k < size; k++) {                                                                                \
            if (scale) sum[k] *= scale[i];                                                                              \
            if (keep) sum[k] += keep[i] * v[own + k];                                                                   \
            if (source) sum[k] += root ? alpha * (root[i] * source[from_source + k]) : source[from_source + k];                     \
            out[own + k] = sum[k];                                                                                      \
        }                                                                                                               \
    }                                                                                                                   \
    static INLINE void NAME##_rows(int64_t first, int64_t last, int64_t width, const int32_t *restrict order,           \
                                   const int32_t *restrict start, const int32_t *restrict column,                       \
                                   const REAL *restrict w, const REAL *restrict scale, const REAL *restrict keep,       \
                                   const REAL *restrict source, int64_t stride, const REAL *restrict root, REAL alpha,  \
                                   const REAL *restrict v, REAL *restrict out, int weighted) {                          \
        for (int64_t r = first; r < last; r++) {                                                                        \
            const int64_t i = order[r];                                                                                 \
            int64_t k = 0;                                                                                              \
            for (; k + 8 <= width; k += 8)                                                                              \
                NAME##_block(i, k, width, start[i], start[i + 1], column, w, scale, keep, source, stride, root, alpha, v,\
                             out, weighted, 8);                                                                         \
            for (; k + 4 <= width; k += 4)                                                                              \
                NAME##_block(i, k, width, start[i], start[i + 1], column, w, scale, keep, source, stride, root, alpha, v,\
                             out, weighted, 4);                                                                         \
            for (; k < width; k++)                                                                                      \
                NAME##_block(i, k, width, start[i], start[i + 1], column, w, scale, keep, source, stride, root, alpha, v,\
                             out, weighted, 1);                                                                         \
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME(int64_t first, int64_t last, int64_t width, const int32_t *order, const int32_t *start,            \
                     const int32_t *column, const REAL *w, const REAL *scale, const REAL *keep, const REAL *source,     \
                     int64_t stride, const REAL *root, REAL alpha, const REAL *v, REAL *out) {                          \
        if (w)                                                                                                          \
            NAME##_rows(first, last, width, order, start, column, w, scale, keep, source, stride, root, alpha, v, out, 1);\
        else                                                                                                            \
            NAME##_rows(first, last, width, order, start, column, w, scale, keep, source, stride, root, alpha, v, out, 0);\
    }

DEFINE_WIDE(ebboost_wide_float, float)
DEFINE_WIDE(ebboost_wide_double, double)

/* Statistics over the neighbours of some nodes: the weighted mean, minimum and maximum of every column, in one pass over
   their edges. Row r of the answers is that of node rows[r], and the answers of one row are `stride` apart from those of the
   next, as they are columns of a wider table. `sums` are the weights of each node added up, or NULL where values may be
   missing (NaN): they then count for nothing, and each column has sums of its own. `nothing` is written where no neighbour has a value.
   Sums are added up one neighbour after the other, as sparse libraries do. */
#define DEFINE_AROUND(NAME, REAL)                                                                                       \
    static INLINE void NAME##_block(int64_t from, int64_t width, int32_t at, int32_t end, const int32_t *restrict column,\
                                    const double *restrict w, const REAL *restrict v, double total, double nothing,     \
                                    double *restrict mean, double *restrict low, double *restrict high, int weighted,   \
                                    int complete, const int size) {                                                     \
        double sum[8] = {0}, known[8] = {0}, least[8], most[8];                                                         \
        for (int k = 0; k < size; k++) least[k] = INFINITY, most[k] = -INFINITY;                                        \
        for (; at < end; at++) {                                                                                        \
            const REAL *restrict other = v + (int64_t)column[at] * width + from;                                        \
            const double weight = weighted ? w[at] : 1;                                                                 \
            for (int k = 0; k < size; k++) {                                                                            \
                const double x = other[k];                                                                              \
                if (complete) {                                                                                         \
                    sum[k] += weighted ? weight * x : x;                                                                \
                } else {                                                                                                \
                    sum[k] += x == x ? weight * x : 0;                                                                  \
                    known[k] += x == x ? weight : 0;                                                                    \
                }                                                                                                       \
                least[k] = x < least[k] ? x : least[k];                                                                 \
                most[k] = x > most[k] ? x : most[k];                                                                    \
            }                                                                                                           \
        }                                                                                                               \
        for (int k = 0; k < size; k++) {                                                                                \
            const double mass = complete ? total : known[k];                                                            \
            if (mean) mean[from + k] = mass > 0 ? sum[k] / mass : nothing;                                              \
            if (low) low[from + k] = least[k] < INFINITY ? least[k] : nothing;                                          \
            if (high) high[from + k] = most[k] > -INFINITY ? most[k] : nothing;                                         \
        }                                                                                                               \
    }                                                                                                                   \
    static INLINE void NAME##_rows(int64_t first, int64_t last, int64_t width, const int64_t *restrict rows,            \
                                   const int32_t *restrict start, const int32_t *restrict column,                       \
                                   const double *restrict w, const double *restrict sums, const REAL *restrict v,       \
                                   double nothing, int64_t stride, double *mean, double *low, double *high,             \
                                   int weighted, int complete) {                                                        \
        for (int64_t r = first; r < last; r++) {                                                                        \
            const int64_t i = rows[r];                                                                                  \
            const double total = complete ? sums[i] : 0;                                                                \
            double *a = mean ? mean + r * stride : 0, *b = low ? low + r * stride : 0, *c = high ? high + r * stride : 0;\
            int64_t k = 0;                                                                                              \
            for (; k + 8 <= width; k += 8)                                                                              \
                NAME##_block(k, width, start[i], start[i + 1], column, w, v, total, nothing, a, b, c, weighted, complete, 8);\
            for (; k + 4 <= width; k += 4)                                                                              \
                NAME##_block(k, width, start[i], start[i + 1], column, w, v, total, nothing, a, b, c, weighted, complete, 4);\
            for (; k < width; k++)                                                                                      \
                NAME##_block(k, width, start[i], start[i + 1], column, w, v, total, nothing, a, b, c, weighted, complete, 1);\
        }                                                                                                               \
    }                                                                                                                   \
    PUBLIC void NAME(int64_t first, int64_t last, int64_t width, const int64_t *rows, const int32_t *start,             \
                     const int32_t *column, const double *w, const double *sums, const REAL *v, double nothing,         \
                     int64_t stride, double *mean, double *low, double *high) {                                         \
        if (w && sums)                                                                                                  \
            NAME##_rows(first, last, width, rows, start, column, w, sums, v, nothing, stride, mean, low, high, 1, 1);   \
        else if (w)                                                                                                     \
            NAME##_rows(first, last, width, rows, start, column, w, sums, v, nothing, stride, mean, low, high, 1, 0);   \
        else if (sums)                                                                                                  \
            NAME##_rows(first, last, width, rows, start, column, w, sums, v, nothing, stride, mean, low, high, 0, 1);   \
        else                                                                                                            \
            NAME##_rows(first, last, width, rows, start, column, w, sums, v, nothing, stride, mean, low, high, 0, 0);   \
    }

DEFINE_AROUND(ebboost_around_float, float)
DEFINE_AROUND(ebboost_around_double, double)

/* Solves P'LDL'P z = right: `value` holds the strictly lower triangle of L by columns from `start`, `inverse` is 1/D, and row k
   of L belongs to node order[k]. `v` is work space. Columns of a factor end with the same rows as the next ones, so that what
   they read is in the nearest cache. */
PUBLIC void ebboost_factor_solve(int64_t n, const int32_t *restrict start, const int32_t *restrict row,
                                 const double *restrict value, const double *restrict inverse, const int32_t *restrict order,
                                 const double *restrict right, double *restrict z, double *restrict v) {
    for (int64_t k = 0; k < n; k++) v[k] = right[order[k]];
    for (int64_t k = 0; k < n; k++) {
        const double known = v[k];
        for (int32_t e = start[k]; e < start[k + 1]; e++) v[row[e]] -= value[e] * known;
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        double sums[4] = {0};
        int32_t e = start[k];
        for (; e + 4 <= start[k + 1]; e += 4)
            for (int i = 0; i < 4; i++) sums[i] += value[e + i] * v[row[e + i]];
        for (; e < start[k + 1]; e++) sums[0] += value[e] * v[row[e]];
        v[k] = v[k] * inverse[k] - ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        z[order[k]] = v[k];
    }
}

/* Conjugate gradients for (diag(diagonal) - A) z = right, all in the new order. Preconditioned by the diagonal, `inverse` being
   1/diagonal, or, if `factored`, by the factor of a matrix near this one: S L^-T D^-1 L^-1 S, S = diag(inverse), with its arguments
   as above and two vectors of work space. Enters with residual = right and starts from z = 0, leaves when the residual, each
   entry times weight_i, is no longer than `target`. The loops do all that can be done in passing, so that every vector is read
   once, and add up in eight sums, as one addition would wait for the last. Returns the iterations made, and the length reached.
   `near` solves (diag(matrix) - c R A R) out = right, which are in the order of the nodes, as a system in R z: share is 1/(c r^2),
   weight is c r, and near is the diagonal of the matrix that the factor is of, all three in the new order. */
static INLINE double total(const double *sum) {
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

#define FACTOR                                                                                                          \
    const int32_t *restrict first, const int32_t *restrict below, const double *restrict value,                         \
        const double *restrict pivot, const int32_t *restrict order, double *restrict solved, double *restrict work

#define DEFINE_SOLVE(NAME, SUMS, INDEX)                                                                                 \
    static INLINE int64_t NAME##_loop(int64_t n, EDGES(double, INDEX), const double *restrict diagonal,                 \
                                      const double *restrict inverse, const double *restrict weight, double target,     \
                                      int64_t most, double *restrict z, double *restrict residual,                      \
                                      double *restrict direction, double *restrict image, double *restrict reached,     \
                                      FACTOR, int weighted, int factored) {                                             \
        double products[8] = {0}, lengths[8] = {0}, last = 0;                                                           \
        for (int64_t i = n; i % 8; i++) residual[i] = 0; /* a solve that overflowed has left NaN here */                \
        for (int64_t i = 0; i < n; i += 8)                                                                              \
            for (int k = 0; k < 8; k++) {                                                                               \
                const double r = residual[i + k], weighed = r * weight[i + k];                                          \
                z[i + k] = direction[i + k] = 0;                                                                        \
                products[k] += r * (r * inverse[i + k]);                                                                \
                lengths[k] += weighed * weighed;                                                                        \
            }                                                                                                           \
        double product = total(products), length = total(lengths);                                                      \
        int64_t done = 0;                                                                                               \
        for (; done < most && sqrt(length) > target; done++) {                                                          \
            double curvatures[8] = {0};                                                                                 \
            if (factored) {                                                                                             \
                for (int64_t i = 0; i < n; i++) image[i] = inverse[i] * residual[i];                                    \
                ebboost_factor_solve(n, first, below, value, pivot, order, image, solved, work);                        \
                for (int k = 0; k < 8; k++) products[k] = 0;                                                            \
                for (int64_t i = 0; i < n; i += 8)                                                                      \
                    for (int k = 0; k < 8; k++) products[k] += image[i + k] * solved[i + k];                            \
                product = total(products);                                                                              \
            }                                                                                                           \
            const double *restrict scaled = factored ? solved : residual;                                               \
            const double turn = last > 0 ? product / last : 0;                                                          \
            for (int64_t i = 0; i < n; i++) direction[i] = scaled[i] * inverse[i] + turn * direction[i];                \
            int64_t r = 0;                                                                                              \
            if (size) ebboost_double_shared(0, n, size, direction);                                                     \
            for (int64_t from = 0; from < n; from += WINDOW) {                                                          \
                const int64_t to = from + WINDOW < n ? from + WINDOW : n;                                               \
                r = SUMS##_sums(from, to, r, PASSED, direction, image, weighted);                                       \
                for (int64_t i = from; i < to; i += 8)                                                                  \
                    for (int k = 0; k < 8; k++) {                                                                       \
                        image[i + k] = diagonal[i + k] * direction[i + k] - image[i + k];                               \
                        curvatures[k] += direction[i + k] * image[i + k];                                               \
                    }                                                                                                   \
            }                                                                                                           \
            const double curvature = total(curvatures), step = curvature > 0 ? product / curvature : 0;                 \
            for (int k = 0; k < 8; k++) products[k] = lengths[k] = 0;                                                   \
            for (int64_t i = 0; i < n; i += 8)                                                                          \
                for (int k = 0; k < 8; k++) {                                                                           \
                    z[i + k] += step * direction[i + k];                                                                \
                    const double left = residual[i + k] - step * image[i + k], weighed = left * weight[i + k];          \
                    residual[i + k] = left;                                                                             \
                    products[k] += left * (left * inverse[i + k]);                                                      \
                    lengths[k] += weighed * weighed;                                                                    \
                }                                                                                                       \
            last = product, product = total(products), length = total(lengths);                                         \
        }                                                                                                               \
        *reached = sqrt(length);                                                                                        \
        return done;                                                                                                    \
    }                                                                                                                   \
    PUBLIC int64_t NAME(int64_t n, EDGES(double, INDEX), const double *diagonal, const double *inverse,                 \
                        const double *weight, double target, int64_t most, double *z, double *residual,                 \
                        double *direction, double *image, double *reached) {                                            \
        if (w) return NAME##_loop(n, PASSED, SYSTEM, 0, 0, 0, 0, 0, 0, 0, 1, 0);                                        \
        return NAME##_loop(n, PASSED, SYSTEM, 0, 0, 0, 0, 0, 0, 0, 0, 0);                                               \
    }                                                                                                                   \
    PUBLIC int64_t NAME##_near(int64_t n, const int32_t *nodes, EDGES(double, INDEX), const double *right,              \
                               const double *matrix, const double *near, const double *share, const double *weight,     \
                               double target, int64_t most, double *out, double *diagonal, double *inverse, double *z,  \
                               double *residual, double *direction, double *image, double *reached, FACTOR) {           \
        for (int64_t i = 0; i < n; i++) {                                                                               \
            diagonal[i] = matrix[nodes[i]] * share[i];                                                                  \
            inverse[i] = sqrt(near[i] / diagonal[i]);                                                                   \
            residual[i] = right[nodes[i]] / weight[i];                                                                  \
        }                                                                                                               \
        const int64_t done = w ? NAME##_loop(n, PASSED, SYSTEM, PASSED_FACTOR, 1, 1)                                    \
                               : NAME##_loop(n, PASSED, SYSTEM, PASSED_FACTOR, 0, 1);                                   \
        for (int64_t i = 0; i < n; i++) out[nodes[i]] = z[i] * (share[i] * weight[i]);                                  \
        return done;                                                                                                    \
    }
#define SYSTEM diagonal, inverse, weight, target, most, z, residual, direction, image, reached
#define PASSED_FACTOR first, below, value, pivot, order, solved, work

DEFINE_SOLVE(ebboost_solve_16, ebboost_double_narrow_16, uint16_t)
DEFINE_SOLVE(ebboost_solve_32, ebboost_double_narrow_32, int32_t)

/* Conjugate gradients whose rows are divided among workers: the sums of one worker, residual * scaled, scaled * image and
   (weight * residual)^2, which are added to those of the others; and what follows from them, see `propagation/arranged.py`. */
PUBLIC void ebboost_solve_sums(int64_t n, const double *restrict residual, const double *restrict scaled,
                               const double *restrict image, const double *restrict weight, double *restrict sums) {
    double products[8] = {0}, curvatures[8] = {0}, lengths[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) {
            const double weighed = residual[i + k] * weight[i + k];
            products[k] += residual[i + k] * scaled[i + k];
            curvatures[k] += scaled[i + k] * image[i + k];
            lengths[k] += weighed * weighed;
        }
    for (; i < n; i++) {
        const double weighed = residual[i] * weight[i];
        products[0] += residual[i] * scaled[i], curvatures[0] += scaled[i] * image[i], lengths[0] += weighed * weighed;
    }
    sums[0] = total(products), sums[1] = total(curvatures), sums[2] = total(lengths);
}

PUBLIC void ebboost_solve_advance(int64_t n, double beta, double step, const double *restrict inverse,
                                  const double *restrict newest, double *restrict scaled, double *restrict direction,
                                  double *restrict image, double *restrict z, double *restrict residual) {
    for (int64_t i = 0; i < n; i++) {
        direction[i] = scaled[i] + beta * direction[i];
        image[i] = newest[i] + beta * image[i];
        z[i] += step * direction[i];
        residual[i] -= step * image[i];
        scaled[i] = inverse[i] * residual[i];
    }
}

/* An order in which nodes that share neighbours lie in pairs, and pairs in fours: of the unpaired neighbours of a node, the
   one with which it shares the most, looked for in the order `nodes`; then of the pairs around a pair the one whose
   shared neighbours are its own most often. A node without one is paired with the next node without one. No more than LOOKED_AT neighbours
   of a node are looked at. `mate` and `mark` have an entry for each node, `pair` and `visited` for each node in a pair,
   `shared_start` one more than there are pairs, `shared` one for each entry of the matrix. */
#define LOOKED_AT 32
PUBLIC void ebboost_paired(int64_t n, const int32_t *restrict start, const int32_t *restrict column,
                           const int32_t *restrict nodes, int32_t *restrict mate, int32_t *restrict mark,
                           int32_t *restrict pair, int32_t *restrict visited, int64_t *restrict shared_start,
                           int32_t *restrict shared, int32_t *restrict order) {
    int64_t n_pairs = 0, n_shared = 0, alone = -1, put = 0;
    for (int64_t i = 0; i < n; i++) mate[i] = mark[i] = -1;
    for (int64_t t = 0; t < n; t++) {
        const int32_t i = nodes[t];
        if (mate[i] >= 0) continue;
        const int32_t end = start[i + 1], looked = end - start[i] < LOOKED_AT ? end : start[i] + LOOKED_AT;
        for (int32_t at = start[i]; at < end; at++) {
            mark[column[at]] = i;
            soon(column + start[column[at]]);
        }
        int64_t best = -1, most = 1;
        for (int32_t at = start[i]; at < looked; at++) {
            const int32_t j = column[at], to = start[j + 1] - start[j] < LOOKED_AT ? start[j + 1] : start[j] + LOOKED_AT;
            if (mate[j] >= 0 || j == i) continue;
            int64_t count = 0;
            for (int32_t k = start[j]; k < to; k++) count += mark[column[k]] == i;
            if (count > most) best = j, most = count;
        }
        shared_start[n_pairs] = n_shared;
        if (best >= 0) {
            for (int32_t k = start[best]; k < start[best + 1]; k++)
                if (mark[column[k]] == i) shared[n_shared++] = column[k];
        } else if (alone >= 0) {
            best = alone, alone = -1;
        } else {
            alone = i, mate[i] = (int32_t)n; /* until the next node without one */
            continue;
        }
        pair[2 * n_pairs] = (int32_t)best, pair[2 * n_pairs + 1] = i;
        mate[i] = mate[best] = (int32_t)n_pairs++;
    }
    shared_start[n_pairs] = n_shared;
    if (alone >= 0) mate[alone] = -1;
    /* From here on `mate` is the number of the pair, -1 once it is in a four or where there is none. */
    for (int64_t i = 0; i < n; i++) mark[i] = visited[i] = -1;
    int64_t single = -1;
    for (int64_t p = 0; p < n_pairs; p++) {
        if (mate[pair[2 * p]] < 0) continue;
        for (int64_t k = shared_start[p]; k < shared_start[p + 1]; k++) mark[shared[k]] = (int32_t)p;
        int64_t best = -1, most = 0;
        for (int side = 0; side < 2; side++) {
            const int32_t i = pair[2 * p + side];
            const int32_t looked = start[i + 1] - start[i] < LOOKED_AT ? start[i + 1] : start[i] + LOOKED_AT;
            for (int32_t at = start[i]; at < looked; at++) {
                const int32_t q = mate[column[at]];
                if (q < 0 || q == p || visited[q] == p) continue;
                visited[q] = (int32_t)p;
                const int64_t from = shared_start[q], all = shared_start[q + 1] - from;
                const int64_t to = from + (all < LOOKED_AT ? all : LOOKED_AT); /* else two hubs would be read by every pair */
                int64_t count = 0;
                for (int64_t k = from; k < to; k++) count += mark[shared[k]] == p;
                if (count > most) best = q, most = count;
            }
        }
        mate[pair[2 * p]] = mate[pair[2 * p + 1]] = -1;
        if (best < 0 && single < 0) {
            single = p;
            continue;
        }
        if (best < 0) best = single, single = -1;
        mate[pair[2 * best]] = mate[pair[2 * best + 1]] = -1;
        for (int k = 0; k < 2; k++) order[put++] = pair[2 * p + k];
        for (int k = 0; k < 2; k++) order[put++] = pair[2 * best + k];
    }
    if (single >= 0)
        for (int k = 0; k < 2; k++) order[put++] = pair[2 * single + k];
    if (alone >= 0) order[put++] = (int32_t)alone;
}

/* Sums along a direction h of a quadratic with gradient g and curvature c: of g_i h_i and of c_i h_i^2; and, where `least` is
   positive, of g_i^2 / c_i, no curvature being taken as less than that. */
PUBLIC void ebboost_along(int64_t n, const double *restrict gradient, const double *restrict curvature,
                          const double *restrict direction, double least, double *restrict sums) {
    double gradients[8] = {0}, curvatures[8] = {0}, lengths[8] = {0};
    const int64_t full = n / 8 * 8;
    for (int64_t first = 0; first < full; first += 1024) { /* one sum after the other, of what is in the nearest cache */
        const int64_t last = first + 1024 < full ? first + 1024 : full;
        for (int64_t i = first; i < last; i += 8)
            for (int k = 0; k < 8; k++) gradients[k] += gradient[i + k] * direction[i + k];
        for (int64_t i = first; i < last; i += 8)
            for (int k = 0; k < 8; k++) curvatures[k] += curvature[i + k] * direction[i + k] * direction[i + k];
        for (int64_t i = least > 0 ? first : last; i < last; i += 8)
            for (int k = 0; k < 8; k++)
                lengths[k] += gradient[i + k] * gradient[i + k] / (curvature[i + k] > least ? curvature[i + k] : least);
    }
    for (int64_t i = full; i < n; i++) {
        gradients[0] += gradient[i] * direction[i];
        curvatures[0] += curvature[i] * direction[i] * direction[i];
        if (least > 0) lengths[0] += gradient[i] * gradient[i] / (curvature[i] > least ? curvature[i] : least);
    }
    sums[0] = total(gradients), sums[1] = total(curvatures), sums[2] = total(lengths);
}

/* Values max(0, a.x + b) of unit k at `count` rows, of up to three inputs, which are `stride` apart; `inputs` with a coefficient of 0
   are left out. */
#define DEFINE_UNIT(NAME, FROM, REAL)                                                                                   \
    static INLINE void NAME(int64_t count, int64_t stride, int64_t k, const FROM *restrict columns,                     \
                            const int64_t *restrict inputs, const float *restrict coefficients,                         \
                            const float *restrict biases, REAL *restrict hidden) {                                      \
        const FROM *restrict x[3] = {columns, columns, columns};                                                        \
        REAL a[3] = {0};                                                                                                \
        const REAL b = biases[k];                                                                                       \
        int used = 0;                                                                                                   \
        for (int64_t j = 3 * k; j < 3 * k + 3; j++)                                                                     \
            if (coefficients[j] != 0) a[used] = coefficients[j], x[used++] = columns + inputs[j] * stride;              \
        if (used < 2)                                                                                                   \
            for (int64_t i = 0; i < count; i++) hidden[i] = b + a[0] * x[0][i];                                         \
        else if (used == 2)                                                                                             \
            for (int64_t i = 0; i < count; i++) hidden[i] = (b + a[0] * x[0][i]) + a[1] * x[1][i];                      \
        else                                                                                                            \
            for (int64_t i = 0; i < count; i++) hidden[i] = ((b + a[0] * x[0][i]) + a[1] * x[1][i]) + a[2] * x[2][i];   \
        for (int64_t i = 0; i < count; i++) hidden[i] = hidden[i] > 0 ? hidden[i] : 0;                                  \
    }

DEFINE_UNIT(unit_of_doubles, double, double)
DEFINE_UNIT(unit_in_double, float, double)
DEFINE_UNIT(unit_of_floats, float, float)

/* A loop for processors with AVX2 and one for others: vectors of twice the width, and the same bits. */
#if defined(__x86_64__) && defined(__GNUC__)
#define DEFINE_BY_WIDTH(NAME, ARGUMENTS, PASSED_ON)                                                                         \
    __attribute__((target("avx2"))) static void NAME##_wide ARGUMENTS { NAME PASSED_ON; }                               \
    PUBLIC void ebboost_##NAME ARGUMENTS {                                                                              \
        if (__builtin_cpu_supports("avx2"))                                                                             \
            NAME##_wide PASSED_ON;                                                                                      \
        else                                                                                                            \
            NAME PASSED_ON;                                                                                             \
    }
#else
#define DEFINE_BY_WIDTH(NAME, ARGUMENTS, PASSED_ON) PUBLIC void ebboost_##NAME ARGUMENTS { NAME PASSED_ON; }
#endif
#define UNITS const int64_t *restrict inputs, const float *restrict coefficients, const float *restrict biases

/* Scores of n rows by units: columns[j * n + i] is input j of row i, weights[k * n_outputs + o] that of unit k for output o, with
   the constant last, scores[o * n + i] the result. */
#define ARGUMENTS                                                                                                       \
    (int64_t n, int64_t n_units, int64_t n_outputs, const double *restrict columns, UNITS, const float *restrict weights, \
     double *restrict scores)
static INLINE void units ARGUMENTS {
    double hidden[1024];
    for (int64_t first = 0; first < n; first += 1024) { /* what stays in the nearest cache */
        const int64_t count = n - first < 1024 ? n - first : 1024;
        for (int64_t o = 0; o < n_outputs; o++)
            for (int64_t i = 0; i < count; i++) scores[o * n + first + i] = weights[n_units * n_outputs + o];
        for (int64_t k = 0; k < n_units; k++) {
            unit_of_doubles(count, n, k, columns + first, inputs, coefficients, biases, hidden);
            for (int64_t o = 0; o < n_outputs; o++) {
                const double weight = weights[k * n_outputs + o];
                double *restrict own = scores + o * n + first;
                for (int64_t i = 0; i < count; i++) own[i] += weight * hidden[i];
            }
        }
    }
}
DEFINE_BY_WIDTH(units, ARGUMENTS, (n, n_units, n_outputs, columns, inputs, coefficients, biases, weights, scores))
#undef ARGUMENTS

/* Of each unit h, over n rows with weights w: the sums of w h and w h^2, and of t_o h for the weighted target t_o = targets[o * n + i]
   of each output, in sums[s * n_units + k]. */
#define ARGUMENTS                                                                                                       \
    (int64_t n, int64_t stride, int64_t n_units, int64_t n_outputs, const float *restrict columns, UNITS,               \
     const double *restrict weights, const double *restrict targets, double *restrict sums)
static INLINE void unit_sums ARGUMENTS {
    double hidden[1024];
    for (int64_t s = 0; s < (n_outputs + 2) * n_units; s++) sums[s] = 0;
    for (int64_t first = 0; first < n; first += 1024) {
        const int64_t count = n - first < 1024 ? n - first : 1024, full = count - count % 8;
        const double *restrict w = weights + first;
        for (int64_t k = 0; k < n_units; k++) {
            unit_in_double(count, stride, k, columns + first, inputs, coefficients, biases, hidden);
            double one[8] = {0}, two[8] = {0};
            for (int64_t i = 0; i < full; i += 8)
                for (int l = 0; l < 8; l++) {
                    const double weighted = w[i + l] * hidden[i + l];
                    one[l] += weighted;
                    two[l] += weighted * hidden[i + l];
                }
            for (int64_t i = full; i < count; i++) one[0] += w[i] * hidden[i], two[0] += w[i] * hidden[i] * hidden[i];
            sums[k] += total(one), sums[n_units + k] += total(two);
            for (int64_t o = 0; o < n_outputs; o++) {
                const double *restrict target = targets + o * n + first;
                double own[8] = {0};
                for (int64_t i = 0; i < full; i += 8)
                    for (int l = 0; l < 8; l++) own[l] += target[i + l] * hidden[i + l];
                for (int64_t i = full; i < count; i++) own[0] += target[i] * hidden[i];
                sums[(o + 2) * n_units + k] += total(own);
            }
        }
    }
}
DEFINE_BY_WIDTH(unit_sums, ARGUMENTS,
            (n, stride, n_units, n_outputs, columns, inputs, coefficients, biases, weights, targets, sums))
#undef ARGUMENTS

/* Values of units at n rows, times the factors of the rows: values[k * n + i]. What follows the units is a constant, 1. */
#define ARGUMENTS                                                                                                       \
    (int64_t n, int64_t stride, int64_t n_units, const float *restrict columns, UNITS, const float *restrict factors,   \
     float *restrict values)
static INLINE void hidden ARGUMENTS {
    for (int64_t k = 0; k < n_units; k++) {
        float *restrict own = values + k * n;
        unit_of_floats(n, stride, k, columns, inputs, coefficients, biases, own);
        for (int64_t i = 0; i < n; i++) own[i] *= factors[i];
    }
    for (int64_t i = 0; i < n; i++) values[n_units * n + i] = factors[i];
}
DEFINE_BY_WIDTH(hidden, ARGUMENTS, (n, stride, n_units, columns, inputs, coefficients, biases, factors, values))
#undef ARGUMENTS

/* The pattern of L, P(diag - A)P' = LDL', where row k of L belongs to node order[k] and `position` is its inverse: the parent of
   each column, its first row below the diagonal, and how many such rows it has, in `end`. A second call, with the starts of the
   columns in `end` and room for all rows, lists the rows of each column in order and leaves the ends in `end`. */
PUBLIC void ebboost_factor_pattern(int64_t n, const int32_t *restrict start, const int32_t *restrict column,
                                   const int32_t *restrict order, const int32_t *restrict position, int32_t *restrict parent,
                                   int32_t *restrict mark, int32_t *restrict end, int32_t *restrict row) {
    for (int64_t k = 0; k < n; k++) {
        mark[k] = (int32_t)k;
        if (!row) parent[k] = -1, end[k] = 0;
        for (int32_t e = start[order[k]]; e < start[order[k] + 1]; e++) {
            int32_t i = position[column[e]];
            if (i > k) continue;
            for (; mark[i] != k; i = parent[i]) {
                if (row) row[end[i]] = (int32_t)k;
                if (parent[i] < 0) parent[i] = (int32_t)k;
                mark[i] = (int32_t)k;
                end[i]++;
            }
        }
    }
}

/* L and 1/D of P(diag(diagonal) - c R A R)P' = LDL', R = diag(root), row by row: the entries of row k solve a triangular system
   with the rows above, in an order in which columns come before their parents. `v` enters as zeros; it, `mark`, `end` and
   `stack` are work space. */
PUBLIC void ebboost_factorize(int64_t n, const int32_t *restrict start, const int32_t *restrict column,
                              const double *restrict weight, const double *restrict diagonal, const double *restrict root,
                              double c, const int32_t *restrict order, const int32_t *restrict position,
                              const int32_t *restrict parent, const int32_t *restrict first, const int32_t *restrict row,
                              double *restrict value, double *restrict inverse, double *restrict v, int32_t *restrict mark,
                              int32_t *restrict end, int32_t *restrict stack) {
    for (int64_t k = 0; k < n; k++) {
        const int32_t node = order[k];
        double pivot = diagonal[node];
        int64_t top = n;
        mark[k] = (int32_t)k;
        end[k] = first[k];
        for (int32_t e = start[node]; e < start[node + 1]; e++) {
            int32_t i = position[column[e]];
            const double entry = c * root[node] * root[column[e]] * weight[e];
            if (i == k) pivot -= entry;
            if (i >= k) continue;
            v[i] -= entry;
            int64_t length = 0;
            for (; mark[i] != k; i = parent[i]) stack[length++] = i, mark[i] = (int32_t)k;
            while (length) stack[--top] = stack[--length];
        }
        for (; top < n; top++) {
            const int32_t i = stack[top];
            const double known = v[i], entry = known * inverse[i];
            v[i] = 0;
            for (int32_t e = first[i]; e < end[i]; e++) v[row[e]] -= value[e] * known;
            pivot -= entry * known;
            value[end[i]++] = entry;
        }
        inverse[k] = 1 / pivot;
    }
}

/* The diagonal of (LDL')^-1 by node, from its entries z on the pattern of L, last column first (Takahashi): those below the
   diagonal are -Z l, with l the column of L and Z the entries at its rows, which are known by then. Z is in `block`, from the last
   row to the first, and grows by one row where the next column has one row more, as most have. `stride` is at least two more than
   the rows of any column, `number` enters as zeros, `sum` has `stride` entries; number and row 0 of the block are for rows that
   the column does not have. */
PUBLIC void ebboost_selected_inverse(int64_t n, const int32_t *restrict start, const int32_t *restrict row,
                                     const double *restrict value, const double *restrict inverse,
                                     const int32_t *restrict order, double *restrict diagonal, double *restrict z,
                                     int32_t *restrict number, int64_t stride, double *restrict block, double *restrict sum) {
    for (int64_t k = n - 1; k >= 0; k--) {
        const int32_t first = start[k], last = start[k + 1], size = last - first;
        if (size && row[first] == k + 1 && start[k + 2] - last == size - 1) {
            double *own = block + size * stride;
            for (int32_t i = 1; i < size; i++) own[i] = block[i * stride + size] = z[start[k + 2] - i];
            own[size] = diagonal[order[k + 1]];
        } else {
            for (int32_t i = 1; i <= size; i++) number[row[last - i]] = i;
            for (int32_t i = 1; i <= size; i++) {
                const int32_t r = row[last - i];
                block[i * stride + i] = diagonal[order[r]];
                for (int32_t e = start[r]; e < start[r + 1]; e++) {
                    const int64_t j = number[row[e]];
                    block[i * stride + j] = block[j * stride + i] = z[e];
                }
            }
            for (int32_t i = 1; i <= size; i++) number[row[last - i]] = 0;
        }
        for (int32_t i = 1; i <= size; i++) sum[i] = 0;
        for (int32_t j = 1; j <= size; j++) {
            const double entry = value[last - j], *known = block + j * stride;
            for (int32_t i = 1; i <= size; i++) sum[i] += known[i] * entry;
        }
        double variance = inverse[k];
        for (int32_t i = 1; i <= size; i++) {
            z[last - i] = -sum[i];
            variance += sum[i] * value[last - i];
        }
        diagonal[order[k]] = variance;
    }
}
