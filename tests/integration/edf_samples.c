/* edf_samples: every sample of a recording as lib/formats/edf reads it, for comparison with other readers.
 * usage: edf_samples FILE OUT. OUT receives the values of all usable signals back to back (binary32, microvolt where the unit is a
 * voltage); stdout one JSON object about the file. A refused file gives {"error": TEXT} and status 0: the refusal is the answer. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "tests/edf_records.h"

static int put_signal(struct json_writer *w, const struct eegfile *edf, int i, FILE *out) {
    const struct eeg_info *info = eegfile_info(edf);
    const struct eeg_signal *s = &info->signals[i];
    int64_t n = s->usable ? info->n_records * s->samples_per_record : 0;
    struct err err = {0};
    float *uv = malloc(sizeof *uv * (size_t)(n + 1));
    int rc = uv ? 0 : -1;
    if (!rc && s->usable)
        rc = edf_read(edf, i, 0, info->n_records, uv, &err);
    json_begin_object(w, NULL);
    json_put_str(w, "label", s->label);
    json_put_bool(w, "annotation", s->annotation);
    json_put_bool(w, "usable", s->usable);
    json_put_bool(w, "unit_assumed", s->unit_assumed);
    json_put_bool(w, "volt", s->volt);
    json_put_i64(w, "n", n);
    json_put_i64(w, "samples_per_record", s->samples_per_record);
    json_put_f64(w, "rate", s->rate_hz);
    json_put_f64(w, "gain", s->gain);
    json_put_f64(w, "offset", s->offset);
    json_put_f64(w, "digital_min", s->digital_min);
    json_put_f64(w, "digital_max", s->digital_max);
    json_end(w, '}');
    if (!rc && fwrite(uv, sizeof *uv, (size_t)n, out) != (size_t)n)
        rc = -1;
    free(uv);
    return rc;
}

static int put_file(struct json_writer *w, const struct eegfile *edf, const char *path) {
    const struct eeg_info *info = eegfile_info(edf);
    FILE *out = fopen(path, "wb");
    int rc = out ? 0 : -1;
    json_put_i64(w, "records", info->n_records);
    json_put_bool(w, "bdf", info->bdf);
    json_put_f64(w, "record_s", info->record_s);
    json_begin_array(w, "segments");
    for (int i = 0; i < info->n_segments; i++) {
        json_begin_array(w, NULL);
        json_put_i64(w, NULL, info->segments[i].first_record);
        json_put_i64(w, NULL, info->segments[i].n_records);
        json_put_f64(w, NULL, info->segments[i].start_s);
        json_end(w, ']');
    }
    json_end(w, ']');
    json_begin_array(w, "annotations");
    for (size_t i = 0; i < info->n_annotations; i++) {
        json_begin_array(w, NULL);
        json_put_f64(w, NULL, info->annotations[i].onset_s);
        json_put_f64(w, NULL, info->annotations[i].duration_s);
        json_put_str(w, NULL, info->annotations[i].text);
        json_end(w, ']');
    }
    json_end(w, ']');
    char start[32];
    json_put_str(w, "start", eegfile_start_text(edf, start, sizeof start));
    json_begin_array(w, "signals");
    for (int i = 0; i < info->n_signals && !rc; i++)
        rc = put_signal(w, edf, i, out);
    json_end(w, ']');
    if (out && fclose(out))
        rc = -1;
    return rc;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: edf_samples FILE OUT\n");
        return 2;
    }
    struct eegfile *edf = NULL;
    struct err err = {0};
    struct str text;
    struct json_writer w;
    int rc = 0;
    str_init(&text, 1 << 24);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    if (eegfile_open(argv[1], &edf, &err))
        json_put_str(&w, "error", err.message);
    else
        rc = put_file(&w, edf, argv[2]);
    json_end(&w, '}');
    puts(str_cstr(&text));
    str_done(&text);
    eegfile_close(edf);
    return rc ? 1 : 0;
}
