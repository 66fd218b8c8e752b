/* edf_writer: builds small EDF and BDF files in memory for tests, correct by default; tests then damage them. */
#pragma once

#include "base/base.h"

struct written_signal {
    const char *label, *unit, *physical_min, *physical_max, *digital_min, *digital_max;
    int samples;     /* per record */
    const char *tal; /* annotation bytes of record 0 beyond the time-keeper, "" for none; NULL for an ordinary signal */
};

struct written_file {
    const char *reserved, *records, *duration, *header_bytes, *recording, *date, *time;
    int n_signals, n_records;
    const struct written_signal *signals;
    const char *const *keepers; /* time-keeper text per record ("+0"), or NULL for none */
};

static inline void edf_field(struct str *out, const char *text, int width) {
    char padded[96];
    int n = (int)strlen(text);
    for (int i = 0; i < width; i++)
        padded[i] = i < n ? text[i] : ' ';
    str_append(out, padded, (size_t)width);
}

static inline const char *or_text(const char *text, const char *fallback) { return text ? text : fallback; }

/* Sample i of signal s in record r. */
static inline int written_sample(int s, int r, int i) { return (s * 1000 + r * 37 + i * 11) % 4001 - 2000; }

static inline void edf_write_header(const struct written_file *f, bool bdf, struct str *out) {
    char number[32];
    if (bdf)
        str_append(out,
                   "\xFF"
                   "BIOSEMI",
                   8);
    else
        edf_field(out, "0", 8);
    edf_field(out, "X X X X", 80);
    edf_field(out, or_text(f->recording, "Startdate 02-MAR-2002 X X X"), 80);
    edf_field(out, or_text(f->date, "02.03.02"), 8);
    edf_field(out, or_text(f->time, "04.05.06"), 8);
    snprintf(number, sizeof number, "%d", 256 * (f->n_signals + 1));
    edf_field(out, or_text(f->header_bytes, number), 8);
    edf_field(out, or_text(f->reserved, ""), 44);
    snprintf(number, sizeof number, "%d", f->n_records);
    edf_field(out, or_text(f->records, number), 8);
    edf_field(out, or_text(f->duration, "1"), 8);
    snprintf(number, sizeof number, "%d", f->n_signals);
    edf_field(out, number, 4);
    for (int column = 0; column < 10; column++) {
        static const int width[10] = {16, 80, 8, 8, 8, 8, 8, 80, 8, 32};
        for (int s = 0; s < f->n_signals; s++) {
            const struct written_signal *g = &f->signals[s];
            snprintf(number, sizeof number, "%d", g->samples);
            const char *texts[10] = {g->label,
                                     "",
                                     or_text(g->unit, g->tal ? "" : "uV"),
                                     or_text(g->physical_min, g->tal ? "-1" : "-3276.8"),
                                     or_text(g->physical_max, g->tal ? "1" : "3276.7"),
                                     or_text(g->digital_min, "-32768"),
                                     or_text(g->digital_max, "32767"),
                                     "",
                                     number,
                                     ""};
            edf_field(out, texts[column], width[column]);
        }
    }
}

/* The whole file into out (max size set by the caller). Annotation bytes may hold '@' for NUL. */
static inline void edf_write(const struct written_file *f, bool bdf, struct str *out) {
    edf_write_header(f, bdf, out);
    int width = bdf ? 3 : 2;
    for (int r = 0; r < f->n_records; r++) {
        bool keeper = true;
        for (int s = 0; s < f->n_signals; s++) {
            const struct written_signal *g = &f->signals[s];
            size_t bytes = (size_t)g->samples * (size_t)width;
            char *record = calloc(1, bytes + 1);
            if (g->tal) {
                size_t n = 0;
                if (keeper && f->keepers)
                    n = (size_t)snprintf(record, bytes, "%s\x14\x14", f->keepers[r]) + 1;
                if (r == 0)
                    for (const char *c = g->tal; *c && n < bytes; c++)
                        record[n++] = *c == '@' ? '\0' : *c;
                keeper = false;
            }
            for (int i = 0; i < g->samples && !g->tal; i++) {
                int value = written_sample(s, r, i);
                for (int b = 0; b < width; b++)
                    record[i * width + b] = (char)(unsigned char)((unsigned)value >> (8 * b));
            }
            str_append(out, record, bytes);
            free(record);
        }
    }
}
