#include "geodesic/spectra.h"

#include "base/order.h"
#include "formats/table.h"

void spectra_done(struct spectra *s) {
    FREE_MEMBERS(*s, concentrations, wavelengths, absorbance);
    *s = (struct spectra){0};
}

static int allocate(struct spectra *s, int n, int64_t width, struct err *err) {
    s->n = n;
    s->width = width;
    s->concentrations = calloc((size_t)n, sizeof(double));
    s->wavelengths = calloc((size_t)width, sizeof(double));
    s->absorbance = calloc((size_t)n * (size_t)width, sizeof(double));
    if (s->concentrations && s->wavelengths && s->absorbance)
        return 0;
    spectra_done(s);
    return err_set(err, ERR_EXHAUSTED, "out of memory for %lld wavelengths of %d spectra", (long long)width, n);
}

/* ---- the formula ----------------------------------------------------------------------------------------------- */

static double formula(double c, double wavelength) {
    double edge = 0.16 * exp(-(wavelength - 200) / 14), bump = exp(-pow((c - 20) / 14, 2));
    double band = 0.6 + 0.4 * exp(-pow((wavelength - 663) / 60, 2));
    return 0.09 + edge + 0.03 * bump * band + 0.012 * (c / (c + 15)) * wavelength / 800;
}

int spectra_formula(struct spectra *ret, struct err *err) {
    static const double concentrations[] = {0, 10, 20, 30, 40, 60};
    struct spectra s;
    enum { N = 6, WIDTH = 601 };
    int rc = allocate(&s, N, WIDTH, err);
    if (rc)
        return rc;
    memcpy(s.concentrations, concentrations, sizeof concentrations);
    for (int64_t i = 0; i < WIDTH; i++) {
        s.wavelengths[i] = 200 + (double)i;
        for (int k = 0; k < N; k++)
            s.absorbance[k * WIDTH + i] = formula(concentrations[k], s.wavelengths[i]);
    }
    digest_bytes(s.absorbance, (size_t)N * WIDTH * sizeof(double), s.sha256);
    *ret = s;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

/* A number to sort by, and where it stood: a column, or a line and the row of numbers read from it. */
struct place {
    double value;
    int line;
    int64_t at;
};

ORDER_BY(by_value, struct place, order_then(order_f64(x->value, y->value), order_i64(x->at, y->at)))

/* Rows as they are read: wavelength, line, and n absorbances in the file's order of columns. */
struct rows {
    int n;
    int64_t count, capacity;
    struct place *places;
    double *values;
};

static int grow(struct rows *r, struct err *err) {
    if (r->count < r->capacity)
        return 0;
    int64_t capacity = r->capacity ? 2 * r->capacity : 1024;
    struct place *places = realloc(r->places, (size_t)capacity * sizeof *places);
    if (places)
        r->places = places;
    double *values = places ? realloc(r->values, (size_t)capacity * (size_t)r->n * sizeof *values) : NULL;
    if (!values)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld rows of spectra", (long long)capacity);
    r->values = values;
    r->capacity = capacity;
    return 0;
}

/* A number of the table, with a decimal comma where commas separate no columns; `unit`: a unit may follow ("10 mM"). */
static bool number_in(const struct table *t, const char *text, bool unit, double *ret) {
    char copy[128];
    if (!str_copy(copy, sizeof copy, text))
        return false;
    char *comma = t->separator == ',' ? NULL : strchr(copy, ',');
    if (comma)
        *comma = '.';
    size_t n = strspn(copy, "+-.0123456789eE");
    while (unit && n && strchr("eE", copy[n - 1])) /* of the unit */
        n--;
    if (unit && n)
        copy[n] = '\0';
    return str_to_f64(copy, ret) && isfinite(*ret);
}

static int read_header(const struct table *t, struct place *columns, struct err *err) {
    int n = t->n_names - 1;
    double number;
    if (number_in(t, t->names[0], false, &number))
        return err_set(err, ERR_INVALID,
                       "%s:%d: the first column is named '%s'; expected a name such as Wavelength in the header row", t->path,
                       t->line, t->names[0]);
    if (n < SPECTRA_MIN_CONCENTRATIONS)
        return err_set(err, ERR_INVALID,
                       "%s:%d: %d concentration%s; expected at least %d columns after the wavelengths, so that one can be held out",
                       t->path, t->line, n, n == 1 ? "" : "s", SPECTRA_MIN_CONCENTRATIONS);
    if (n > SPECTRA_MAX_CONCENTRATIONS)
        return err_set(err, ERR_RANGE, "%s:%d: %d concentrations; there may be at most %d", t->path, t->line, n,
                       SPECTRA_MAX_CONCENTRATIONS);
    for (int i = 0; i < n; i++) {
        columns[i].at = i + 1;
        if (!number_in(t, t->names[i + 1], true, &columns[i].value))
            return err_set(err, ERR_INVALID, "%s:%d: column %d is named '%.100s'; expected a concentration, a number", t->path,
                           t->line, i + 2, t->names[i + 1]);
    }
    SORT(columns, n, by_value);
    int different = 1;
    for (int i = 1; i < n; i++)
        different += columns[i].value != columns[i - 1].value;
    if (different < SPECTRA_MIN_CONCENTRATIONS)
        return err_set(err, ERR_INVALID, "%s:%d: %d different concentrations; expected at least %d, so that one can be held out",
                       t->path, t->line, different, SPECTRA_MIN_CONCENTRATIONS);
    return 0;
}

static int read_cell(const struct table *t, int column, double *ret, struct err *err) {
    return number_in(t, table_field(t, column), false, ret) ? 0 : table_number(t, column, false, ret, err);
}

static int read_rows(struct table *t, struct rows *r, struct err *err) {
    bool more = true;
    int rc;
    for (;;) {
        if ((rc = table_next(t, &more, err)))
            return rc;
        if (!more)
            break;
        if (r->count == SPECTRA_MAX_WAVELENGTHS)
            return err_set(err, ERR_RANGE, "%s:%d: more than %d wavelengths", t->path, t->line, SPECTRA_MAX_WAVELENGTHS);
        if (t->n_fields != t->n_names)
            return err_set(err, ERR_INVALID, "%s:%d: %d fields; expected %d, as in the header row", t->path, t->line, t->n_fields,
                           t->n_names);
        if ((rc = grow(r, err)) || (rc = read_cell(t, 0, &r->places[r->count].value, err)))
            return rc;
        for (int i = 0; i < r->n; i++)
            if ((rc = read_cell(t, i + 1, &r->values[r->count * r->n + i], err)))
                return rc;
        r->places[r->count].line = t->line;
        r->places[r->count].at = r->count;
        r->count++;
    }
    if (r->count < 2)
        return err_set(err, ERR_INVALID, "%s: %lld rows of absorbances; expected one for each wavelength, at least two", t->path,
                       (long long)r->count);
    return 0;
}

static int check_table_rows(const struct table *t, struct rows *r, struct err *err) {
    SORT(r->places, r->count, by_value);
    for (int64_t i = 1; i < r->count; i++)
        if (r->places[i].value == r->places[i - 1].value)
            return err_set(err, ERR_INVALID, "%s:%d: the wavelength %g is also on line %d; average or drop one of them", t->path,
                           r->places[i].line, r->places[i].value, r->places[i - 1].line);
    return 0;
}

/* Columns of one concentration are replicates: their mean counts. */
static int fill(const struct place *columns, const struct rows *r, struct spectra *ret, struct err *err) {
    int n = 0;
    for (int k = 0; k < r->n; k++)
        n += !k || columns[k].value != columns[k - 1].value;
    int rc = allocate(ret, n, r->count, err);
    if (rc)
        return rc;
    for (int k = 0, to = 0, same; k < r->n; k += same, to++) {
        for (same = 1; k + same < r->n && columns[k + same].value == columns[k].value;)
            same++;
        ret->concentrations[to] = columns[k].value;
        for (int64_t i = 0; i < r->count; i++) {
            double sum = 0;
            for (int m = 0; m < same; m++)
                sum += r->values[r->places[i].at * r->n + columns[k + m].at - 1];
            ret->absorbance[to * r->count + i] = sum / same;
        }
    }
    for (int64_t i = 0; i < r->count; i++)
        ret->wavelengths[i] = r->places[i].value;
    return 0;
}

static void rows_done(struct rows *r) { FREE_MEMBERS(*r, places, values); }

int spectra_read(const char *path, struct spectra *ret, struct err *err) {
    OWNED(table_close) struct table t = {0};
    struct place columns[TABLE_MAX_COLUMNS] = {0};
    OWNED(rows_done) struct rows rows = {0};
    struct spectra s = {0};
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    if ((rc = digest_file(path, sha256, err)) || (rc = table_open_any(&t, path, err)) || (rc = read_header(&t, columns, err)))
        return rc;
    rows.n = t.n_names - 1;
    if ((rc = read_rows(&t, &rows, err)) || (rc = check_table_rows(&t, &rows, err)) || (rc = fill(columns, &rows, &s, err)))
        return rc;
    memcpy(s.sha256, sha256, sizeof sha256);
    *ret = s;
    return 0;
}
