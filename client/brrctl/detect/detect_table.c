#include "client/brrctl/detect/detect_table.h"

#include "client/brrctl/detect/seen.h"
#include "client/brrctl/output.h"

void detect_item_json(const struct detect_item *item, const struct outputs_model *seen) {
    struct json_writer *w = output_begin();
    json_put_str(w, "recording", item->path);
    json_put_str(w, "output", item->err.code ? NULL : item->output);
    json_put_f64(w, "duration_s", item->duration_s);
    json_put_i64(w, "events", item->n_events);
    json_put_f64(w, "seizure_s", item->seizure_s);
    if (item->learning_s >= 0)
        json_put_i64(w, "learning_s", item->learning_s);
    json_put_f64(w, "highest_probability", item->err.code ? NAN : item->highest);
    json_put_f64(w, "threshold_on", item->err.code ? NAN : item->threshold_on);
    JSON_MEMBERS(w, *item, suppressed_s, bursts, largest_suppression);
    seen_json(seen, w);
    json_put_str(w, "note", item->note ? item->note : "");
    json_put_str(w, "error", item->err.code ? item->err.message : NULL);
    json_put_str(w, "reason", *item->err.reason ? item->err.reason : NULL);
    output_end(w);
}

/* Of the names of all recordings that are done. */
static int name_width(const struct detect_item *items, int n) {
    size_t width = strlen("recording");
    for (int i = 0; i < n; i++)
        if (items[i].done && strlen(fsio_basename(items[i].path)) > width)
            width = strlen(fsio_basename(items[i].path));
    return (int)width;
}

static bool same_error(const struct detect_item *a, const struct detect_item *b) {
    return a->done && a->err.code == b->err.code && !strcmp(a->err.message, b->err.message) && !strcmp(a->err.cause, b->err.cause);
}

/* The error of recording i, once for all recordings that have it. */
static void print_failure(const struct detect_item *items, int n, int i, int width) {
    const struct detect_item *x = &items[i];
    int first = 0, same = 0;
    for (int k = n; k-- > 0;)
        if (same_error(&items[k], x)) {
            first = k;
            same++;
        }
    if (first < i)
        return;
    printf("%-*s failed: %s%s%s", width, fsio_basename(x->path), x->err.message, *x->err.cause ? ": " : "", x->err.cause);
    if (same > 1)
        printf(" (the same for %d more)", same - 1);
    putchar('\n');
}

static bool any_learns(const struct detect_item *items, int n) {
    while (n > 0 && items[n - 1].learning_s <= 0)
        n--;
    return n > 0;
}

/* The column of seconds in which the background was learned stands where there were any. */
void detect_table_print(const struct detect_item *items, int n, double hours) {
    const int learns = any_learns(items, n) ? 12 : 0;
    double seizure_s = 0, highest = NAN, threshold = NAN;
    char p[16], learning[16];
    int events = 0, done = 0, failed = 0, width = name_width(items, n);
    printf("%-*s %10s%*s %7s %10s %8s\n", width, "recording", "seconds", learns, learns ? "learning s" : "", "events", "seizure s",
           "highest");
    for (int i = 0; i < n; i++) {
        const struct detect_item *x = &items[i];
        if (!x->done)
            continue;
        if (x->err.code) {
            failed++;
            print_failure(items, n, i, width);
            continue;
        }
        str_format(learning, sizeof learning, !learns ? "" : x->learning_s < 0 ? "-" : "%d", x->learning_s);
        printf("%-*s %10.1f%*s %7d %10.1f %8s\n", width, fsio_basename(x->path), x->duration_s, learns, learning, x->n_events,
               x->seizure_s, output_probability(x->highest, p));
        highest = fmax(highest, x->highest);
        threshold = x->threshold_on;
        done++;
        seizure_s += x->seizure_s;
        events += x->n_events;
    }
    printf("%d recording%s, %.2f hours, %d event%s, %.1f s of seizure", done, done == 1 ? "" : "s", hours, events,
           events == 1 ? "" : "s", seizure_s);
    if (failed)
        printf("; %d failed", failed);
    putchar('\n');
    if (done && !events && !isnan(highest))
        printf("the highest probability is %.3f; an event begins at %.3g, if it lasts long enough: `brrctl "
               "tune` chooses thresholds on labelled recordings, --on sets one\n",
               highest, threshold);
}

void detect_table_notes(const struct detect_item *items, int n) {
    enum { SHOWN = 20 };
    const struct detect_item *first[SHOWN];
    int count[SHOWN], shown = 0, others = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (items[i].note && k < shown && strcmp(first[k]->note, items[i].note) != 0)
            k++;
        if (items[i].note && k < shown) {
            count[k]++;
        } else if (items[i].note && shown < SHOWN) {
            first[shown] = &items[i];
            count[shown++] = 1;
        }
        others += items[i].note && k == SHOWN;
    }
    for (int k = 0; k < shown; k++) {
        char more[48] = "";
        if (count[k] > 1)
            str_format(more, sizeof more, " and %d other%s", count[k] - 1, count[k] > 2 ? "s" : "");
        fprintf(stderr, "brrctl: note: %s%s: %s\n", first[k]->path, more, first[k]->note);
    }
    if (others)
        fprintf(stderr, "brrctl: note: and %d more recordings; --json shows all\n", others);
}
