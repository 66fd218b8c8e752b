#include "formats/edf_write.h"

static void put_text(struct str *out, int width, const char *text) { str_printf(out, "%-*.*s", width, width, text); }
static void put_number(struct str *out, int width, int64_t number) { str_printf(out, "%-*lld", width, (long long)number); }

struct edf_write_signal edf_write_annotations(int64_t samples) {
    return (struct edf_write_signal){"EDF Annotations", "", "", "-1", "1", samples, NULL};
}

/* The header of a signal is a row of a table that is stored column by column. */
static void put_signals(struct str *out, const struct edf_write_signal *s, int n) {
    for (int i = 0; i < n; i++)
        put_text(out, 16, s[i].label);
    for (int i = 0; i < n; i++)
        put_text(out, 80, s[i].transducer);
    for (int i = 0; i < n; i++)
        put_text(out, 8, s[i].unit);
    for (int i = 0; i < n; i++)
        put_text(out, 8, s[i].physical_min);
    for (int i = 0; i < n; i++)
        put_text(out, 8, s[i].physical_max);
    for (int i = 0; i < n; i++)
        put_text(out, 8, "-32768");
    for (int i = 0; i < n; i++)
        put_text(out, 8, "32767");
    for (int i = 0; i < n; i++)
        put_text(out, 80, s[i].prefilter ? s[i].prefilter : "");
    for (int i = 0; i < n; i++)
        put_number(out, 8, s[i].samples);
    put_text(out, 32 * n, "");
}

void edf_write_header(struct str *out, const struct edf_write_file *file) {
    put_text(out, 8, "0");
    put_text(out, EDF_WRITE_FIELD, file->patient);
    put_text(out, EDF_WRITE_FIELD, file->recording);
    put_text(out, 8, file->date);
    put_text(out, 8, file->time);
    put_number(out, 8, 256 * (int64_t)(file->n_signals + 1));
    put_text(out, 44, "EDF+C");
    put_number(out, 8, file->records);
    put_number(out, 8, file->record_s);
    put_number(out, 4, file->n_signals);
    put_signals(out, file->signals, file->n_signals);
}

const char *edf_write_time(double seconds, char buf[EDF_WRITE_TIME_SIZE]) {
    str_format(buf, EDF_WRITE_TIME_SIZE, "%.7f", seconds);
    size_t n = strlen(buf);
    while (buf[n - 1] == '0')
        n--;
    buf[buf[n - 1] == '.' ? n - 1 : n] = '\0';
    return buf;
}

size_t edf_write_keeper(double seconds, char buf[EDF_WRITE_KEEPER_SIZE]) {
    char text[EDF_WRITE_TIME_SIZE];
    str_format(buf, EDF_WRITE_KEEPER_SIZE, "+%s\x14\x14", edf_write_time(seconds, text));
    return strlen(buf) + 1;
}
