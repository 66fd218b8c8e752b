#include "base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Values are doubles kept as bits in 64-bit atomics. */
struct metric {
    struct metric *next;
    const struct metric_family *family;
    char *labels;               /* k="v",k="v" */
    char *key;                  /* label values joined by 0x1f */
    atomic_bool hidden;         /* until the next update */
    _Atomic uint64_t value;     /* counter, gauge, or a histogram's sum */
    _Atomic uint64_t buckets[]; /* per bucket, not cumulative; the last one is +Inf */
};

struct metrics {
    const struct metric_family *table;
    size_t families, max_series;
    pthread_mutex_t lock; /* the lists; updates of series need none */
    struct metric **series;
    size_t *counts;
};

static double get(const _Atomic uint64_t *bits) {
    uint64_t raw = atomic_load_explicit(bits, memory_order_relaxed);
    double value;
    memcpy(&value, &raw, sizeof value);
    return value;
}

static void put(_Atomic uint64_t *bits, double value) {
    uint64_t raw;
    memcpy(&raw, &value, sizeof raw);
    atomic_store_explicit(bits, raw, memory_order_relaxed);
}

static void add(_Atomic uint64_t *bits, double value) {
    uint64_t old = atomic_load_explicit(bits, memory_order_relaxed), fresh;
    do {
        double sum;
        memcpy(&sum, &old, sizeof sum);
        sum += value;
        memcpy(&fresh, &sum, sizeof fresh);
    } while (!atomic_compare_exchange_weak_explicit(bits, &old, fresh, memory_order_relaxed, memory_order_relaxed));
}

struct metrics *metrics_new(const struct metric_family *table, size_t families, size_t max_series) {
    struct metrics *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    *m = (struct metrics){.table = table, .families = families, .max_series = max_series};
    m->series = calloc(families, sizeof *m->series);
    m->counts = calloc(families, sizeof *m->counts);
    if (!m->series || !m->counts) {
        free(m->series);
        free(m->counts);
        free(m);
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void series_free(struct metric *s) {
    free(s->labels);
    free(s->key);
    free(s);
}

void metrics_free(struct metrics *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->families; i++)
        while (m->series[i]) {
            struct metric *next = m->series[i]->next;
            series_free(m->series[i]);
            m->series[i] = next;
        }
    free(m->series);
    free(m->counts);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static char *format_labels(const struct metric_family *family, const char *values) {
    struct str s = str_of(4096);
    const char *name = family->labels;
    while (*name) {
        size_t n = strcspn(name, ","), v = strcspn(values, "\x1f");
        str_printf(&s, "%s%.*s=\"", s.len ? "," : "", (int)n, name);
        for (size_t i = 0; i < v;) {
            int step = str_utf8_step(values + i);
            if (values[i] == '\\' || values[i] == '"')
                str_puts(&s, "\\");
            if (values[i] == '\n')
                str_puts(&s, "\\n");
            else if (step)
                str_append(&s, values + i, (size_t)step);
            else
                str_puts(&s, "\xEF\xBF\xBD"); /* U+FFFD: a scraper refuses the whole page otherwise */
            i += step ? (size_t)step : 1;
        }
        str_puts(&s, "\"");
        name += n + (name[n] == ',');
        values += v + (values[v] == '\x1f');
    }
    return str_take(&s);
}

static struct metric *series_new(const struct metric_family *family, const char *values) {
    struct metric *s = calloc(1, sizeof *s + (family->bucket_count + 1) * sizeof s->buckets[0]);
    if (!s)
        return NULL;
    s->family = family;
    s->labels = format_labels(family, values);
    s->key = strdup(values);
    if (s->labels && s->key)
        return s;
    series_free(s);
    return NULL;
}

struct metric *metrics_series(struct metrics *m, const char *name, const char *label_values) {
    for (size_t i = 0; i < m->families; i++) {
        if (strcmp(m->table[i].name, name))
            continue;
        pthread_mutex_lock(&m->lock);
        struct metric **link = &m->series[i];
        while (*link && strcmp((*link)->key, label_values))
            link = &(*link)->next;
        if (!*link && m->counts[i] < m->max_series && (*link = series_new(&m->table[i], label_values)))
            m->counts[i]++;
        struct metric *found = *link;
        pthread_mutex_unlock(&m->lock);
        return found;
    }
    return NULL;
}

void metrics_drop(struct metrics *m, const char *name, const char *label_values) {
    for (size_t i = 0; i < m->families; i++) {
        if (strcmp(m->table[i].name, name))
            continue;
        LOCKED(&m->lock);
        struct metric **link = &m->series[i];
        while (*link && strcmp((*link)->key, label_values))
            link = &(*link)->next;
        struct metric *gone = *link;
        if (gone) {
            *link = gone->next;
            m->counts[i]--;
            series_free(gone);
        }
    }
}

/* The value of the label in a key; false if the family does not have the label. */
static bool has_label(const struct metric *s, const char *label, const char *value) {
    const char *name = s->family->labels, *at = s->key;
    while (*name) {
        const size_t n = strcspn(name, ","), v = strcspn(at, "\x1f");
        if (strlen(label) == n && !strncmp(name, label, n))
            return strlen(value) == v && !strncmp(at, value, v);
        name += n + (name[n] == ',');
        at += v + (at[v] == '\x1f');
    }
    return false;
}

void metrics_hide(struct metrics *m, const char *label, const char *value) {
    LOCKED(&m->lock);
    for (size_t i = 0; i < m->families; i++)
        for (struct metric *s = m->series[i]; s; s = s->next)
            if (has_label(s, label, value))
                atomic_store(&s->hidden, true);
}

static void show(struct metric *s) {
    if (atomic_load_explicit(&s->hidden, memory_order_relaxed))
        atomic_store_explicit(&s->hidden, false, memory_order_relaxed);
}

void metric_add(struct metric *series, double value) {
    if (!series)
        return;
    add(&series->value, value);
    show(series);
}

void metric_set(struct metric *series, double value) {
    if (!series)
        return;
    put(&series->value, value);
    show(series);
}

void metric_observe(struct metric *series, double value) {
    if (!series || isnan(value))
        return;
    size_t i = 0;
    while (i < series->family->bucket_count && value > series->family->buckets[i])
        i++;
    atomic_fetch_add_explicit(&series->buckets[i], 1, memory_order_relaxed);
    add(&series->value, value);
    show(series);
}

double metric_value(const struct metric *series) { return series ? get(&series->value) : NAN; }

static void visit_histogram(const struct metric *s, metrics_visit_fn *visit, void *ctx) {
    char name[160], labels[4400];
    const char *comma = *s->labels ? "," : "";
    uint64_t total = 0;
    str_format(name, sizeof name, "%s_bucket", s->family->name);
    for (size_t i = 0; i <= s->family->bucket_count; i++) {
        total += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
        if (i < s->family->bucket_count)
            str_format(labels, sizeof labels, "%s%sle=\"%g\"", s->labels, comma, s->family->buckets[i]);
        else
            str_format(labels, sizeof labels, "%s%sle=\"+Inf\"", s->labels, comma);
        visit(ctx, name, labels, (double)total);
    }
    str_format(name, sizeof name, "%s_sum", s->family->name);
    visit(ctx, name, s->labels, get(&s->value));
    str_format(name, sizeof name, "%s_count", s->family->name);
    visit(ctx, name, s->labels, (double)total);
}

static void visit_family(struct metrics *m, size_t i, metrics_visit_fn *visit, void *ctx) {
    for (const struct metric *s = m->series[i]; s; s = s->next) {
        if (atomic_load_explicit(&s->hidden, memory_order_relaxed))
            continue;
        if (s->family->type == METRIC_HISTOGRAM)
            visit_histogram(s, visit, ctx);
        else
            visit(ctx, s->family->name, s->labels, get(&s->value));
    }
}

void metrics_visit(struct metrics *m, metrics_visit_fn *visit, void *ctx) {
    LOCKED(&m->lock);
    for (size_t i = 0; i < m->families; i++)
        visit_family(m, i, visit, ctx);
}

static void print_sample(void *ctx, const char *name, const char *labels, double value) {
    struct str *out = ctx;
    str_printf(out, *labels ? "%s{%s} " : "%s%s ", name, labels);
    if (isnan(value))
        str_puts(out, "NaN");
    else if (isinf(value))
        str_puts(out, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 1e15)
        str_printf(out, "%.0f", value);
    else
        str_put_f64(out, value);
    str_puts(out, "\n");
}

void metrics_print(struct metrics *m, struct str *out) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    LOCKED(&m->lock);
    for (size_t i = 0; i < m->families; i++) {
        const struct metric_family *f = &m->table[i];
        str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, types[f->type]);
        visit_family(m, i, print_sample, out);
    }
}
