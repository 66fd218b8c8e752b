#include "client/brrctl/detect/suppression.h"

enum { RATE_HZ = 256, TABLE_BYTES = 1 << 30 };

void suppression_table_done(struct suppression_table *t) {
    if (t->begun)
        str_done(&t->text);
    t->begun = false;
}

void suppression_table_begin(struct suppression_table *t, const struct brr_stream_info *info) {
    str_init(&t->text, TABLE_BYTES);
    t->begun = true;
    str_puts(&t->text, "time_s\tobserved_s\tratio\tbursts_per_minute");
    for (int c = 0; c < info->n_montage; c++)
        str_printf(&t->text, "\tratio %s", info->montage[c]);
    for (int c = 0; c < info->n_montage; c++)
        str_printf(&t->text, "\tbursts_per_minute %s", info->montage[c]);
    str_puts(&t->text, "\n");
}

static void add_row(struct suppression_table *t, const struct brr_suppression *s) {
    str_printf(&t->text, "%.2f\t%.2f\t%.4f\t%.2f", (double)s->end / RATE_HZ, s->observed_s, s->ratio, s->bursts_per_minute);
    for (int c = 0; c < s->channels; c++)
        str_printf(&t->text, "\t%.4f", (double)s->channel_ratio[c]);
    for (int c = 0; c < s->channels; c++)
        str_printf(&t->text, "\t%.2f", (double)s->channel_bursts_per_minute[c]);
    str_puts(&t->text, "\n");
}

/* The second before its end, as a plateau. */
static void add_to_plot(struct plot_trace *trace, const struct brr_suppression *s) {
    float values[RATE_HZ];
    for (int i = 0; i < RATE_HZ; i++)
        values[i] = (float)s->ratio;
    plot_trace_add(trace, s->end - RATE_HZ, values, RATE_HZ);
}

void suppression_table_add(struct suppression_table *t, const struct brr_message *m) {
    for (int i = 0; i < m->n_suppression; i++) {
        const struct brr_suppression *s = &m->suppression[i];
        if (t->begun)
            add_row(t, s);
        if (t->trace)
            add_to_plot(t->trace, s);
        if (s->observed_s >= SUPPRESSION_FULL_S && (float)s->ratio > t->largest)
            t->largest = (float)s->ratio;
    }
}

int suppression_table_write(const struct suppression_table *t, const char *path, struct err *err) {
    return fsio_write_text(path, &t->text, err);
}
