/* brainvision_writer: recordings of BrainVision with the samples of unit/edf_writer.h, written from the definition of the format.
 */
#pragma once
#include "unit/edf_writer.h"
#include "unit/temp_dir.h"

struct written_brainvision {
    const char *binary; /* INT_16, INT_32, IEEE_FLOAT_32 */
    bool vectorized;
    const char *const *labels;
    int n_signals, seconds, rate_hz;
    const char *resolution; /* of the samples as integers, e.g. "0.5"; IEEE_FLOAT_32 stores their product */
    double factor;          /* the same as a number */
    const char *markers;    /* lines behind [Marker Infos], or NULL: none */
    const char *extra;      /* lines of [Common Infos], or NULL */
};

static inline void put_brainvision_sample(const struct written_brainvision *f, int value, struct str *out) {
    int16_t half = (int16_t)value;
    int32_t whole = value;
    float real = (float)(value * f->factor);
    if (!strcmp(f->binary, "INT_16"))
        str_append(out, &half, sizeof half);
    else if (!strcmp(f->binary, "INT_32"))
        str_append(out, &whole, sizeof whole);
    else
        str_append(out, &real, sizeof real);
}

static inline void write_brainvision_samples(const char *path, const struct written_brainvision *f) {
    struct str out;
    const int n = f->seconds * f->rate_hz;
    str_init(&out, 64 << 20);
    for (int a = 0; a < (f->vectorized ? f->n_signals : n); a++)
        for (int b = 0; b < (f->vectorized ? n : f->n_signals); b++) {
            int s = f->vectorized ? a : b, t = f->vectorized ? b : a;
            put_brainvision_sample(f, written_sample(s, t / f->rate_hz, t % f->rate_hz), &out);
        }
    put_file(path, out.data, out.len);
    str_done(&out);
}

/* STEM.vhdr, STEM.eeg and, with markers, STEM.vmrk. */
static inline void write_brainvision(const char *stem, const struct written_brainvision *f) {
    char path[600];
    struct str header;
    const bool real = !strcmp(f->binary, "IEEE_FLOAT_32");
    str_init(&header, 1 << 20);
    str_printf(
        &header,
        "Brain Vision Data Exchange Header File Version 1.0\r\n; written by a test\r\n\r\n[Common Infos]\r\nCodepage=UTF-8\r\n"
        "DataFile=$b.eeg\r\n%s%sDataFormat=BINARY\r\nDataOrientation=%s\r\nNumberOfChannels=%d\r\nSamplingInterval=%.10g\r\n\r\n"
        "[Binary Infos]\r\nBinaryFormat=%s\r\n\r\n[Channel Infos]\r\n",
        f->markers ? "MarkerFile=$b.vmrk\r\n" : "", f->extra ? f->extra : "", f->vectorized ? "VECTORIZED" : "MULTIPLEXED",
        f->n_signals, 1e6 / f->rate_hz, f->binary);
    for (int s = 0; s < f->n_signals; s++)
        str_printf(&header, "Ch%d=%s,,%s,\xC2\xB5V\r\n", s + 1, f->labels[s], real ? "" : f->resolution);
    str_puts(&header, "\r\n[Comment]\r\nCh1=nothing,,7,V\r\n");
    snprintf(path, sizeof path, "%s.vhdr", stem);
    put_file(path, header.data, header.len);
    snprintf(path, sizeof path, "%s.eeg", stem);
    write_brainvision_samples(path, f);
    if (f->markers) {
        str_clear(&header);
        str_printf(&header,
                   "Brain Vision Data Exchange Marker File, Version 1.0\r\n[Common Infos]\r\nDataFile=x.eeg\r\n[Marker Infos]\r\n"
                   "; comments\r\n%s",
                   f->markers);
        snprintf(path, sizeof path, "%s.vmrk", stem);
        put_file(path, header.data, header.len);
    }
    str_done(&header);
}
