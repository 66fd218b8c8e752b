#include "tools/edfgen/writer.h"

#include "formats/edf_write.h"

enum { ANNOTATION_SAMPLES = 16, HEADER_MAX = 256 * (WRITER_MAX_SIGNALS + 2) };

int writer_open(struct edf_writer *w, const struct writer_config *config, struct err *err) {
    struct edf_write_signal signals[WRITER_MAX_SIGNALS + 1];
    char patient[96], recording[96], date[16], time[16];
    OWNED(str_done) struct str header = str_of(HEADER_MAX);
    const int n = config->n_signals;
    for (int s = 0; s < n; s++)
        signals[s] = (struct edf_write_signal){config->labels[s], "synthetic", "uV", "-3276.8", "3276.7", RATE_HZ};
    signals[n] = edf_write_annotations(ANNOTATION_SAMPLES);
    str_format(patient, sizeof patient, "%s X X %s", config->patient, config->patient);
    str_format(recording, sizeof recording, "Startdate %02d-JAN-2030 X X synthetic", config->start_day);
    str_format(date, sizeof date, "%02d.01.30", config->start_day);
    str_format(time, sizeof time, "%02d.00.00", config->start_hour);
    const struct edf_write_file file = {.patient = patient,
                                        .recording = recording,
                                        .date = date,
                                        .time = time,
                                        .records = config->records,
                                        .record_s = 1,
                                        .signals = signals,
                                        .n_signals = n + 1};
    edf_write_header(&header, &file);
    *w = (struct edf_writer){.n_signals = n};
    int rc = fsio_writer_open(&w->file, config->path, err);
    if (!rc && (rc = fsio_writer_write(&w->file, str_cstr(&header), header.len, err)))
        fsio_writer_abort(&w->file);
    return rc;
}

int writer_second(struct edf_writer *w, const float *const *uv, struct err *err) {
    uint8_t record[(WRITER_MAX_SIGNALS * RATE_HZ + ANNOTATION_SAMPLES) * 2];
    size_t at = 0;
    for (int s = 0; s < w->n_signals; s++) {
        for (int i = 0; i < RATE_HZ; i++) {
            long digital = lrintf(fminf(32767, fmaxf(-32768, uv[s][i] * 10)));
            record[at++] = (uint8_t)(digital & 0xFF);
            record[at++] = (uint8_t)(digital >> 8 & 0xFF);
        }
    }
    memset(record + at, 0, ANNOTATION_SAMPLES * 2);
    char keeper[EDF_WRITE_KEEPER_SIZE];
    memcpy(record + at, keeper, edf_write_keeper((double)w->record++, keeper));
    return fsio_writer_write(&w->file, record, at + ANNOTATION_SAMPLES * 2, err);
}

int writer_commit(struct edf_writer *w, struct err *err) { return fsio_writer_commit(&w->file, err); }

void writer_abort(struct edf_writer *w) { fsio_writer_abort(&w->file); }
