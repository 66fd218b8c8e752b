/* eeg_fixture: recordings for tests: small EDF+ files with a known signal, and the folder of real ones when there is one. */
#pragma once

#include "base/base.h"

static const char *const fixture_referential[] = {"EEG FP1-REF", "EEG F3-REF",  "EEG C3-REF", "EEG P3-REF", "EEG F7-REF",
                                                  "EEG T3-REF",  "EEG T5-REF",  "EEG O1-REF", "EEG FZ-REF", "EEG CZ-REF",
                                                  "EEG PZ-REF",  "EEG FP2-REF", "EEG F4-REF", "EEG C4-REF", "EEG P4-REF",
                                                  "EEG F8-REF",  "EEG T4-REF",  "EEG T6-REF", "EEG O2-REF"};

/* A temporary folder; fixture_remove deletes it. */
static inline void fixture_folder(char *path, size_t size) {
    const char *base = getenv("TMPDIR");
    snprintf(path, size, "%s/brr-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path))
        abort();
}

static inline void fixture_remove(const char *path) { fsio_remove_tree(path, NULL); }

/* Sample i of channel c in µV (integers, so that the file holds them exactly). */
static inline double fixture_sample(int c, int64_t i, double rate) {
    double t = (double)i / rate;
    return floor(60 * sin(2 * M_PI * (3 + c % 7) * t + c) + 25 * sin(2 * M_PI * 21.3 * t) +
                 (double)((i * 2654435761u + (unsigned)c * 97) % 41));
}

struct fixture {
    const char *const *labels;
    int n_labels;
    int rate; /* samples per record of 1 s */
    int records;
    const double *onsets; /* (records) file times for EDF+D, or NULL for EDF+C */
    const char *events;   /* text of the events TSV beside it, or NULL for none */
};

/* Writes path and, beside it, the events TSV ("…_eeg.edf" → "…_events.tsv"). Sample i counts over the records present. */
static inline void fixture_write(const char *path, const struct fixture *f) {
    char folder[4400], text[128];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    if (fsio_mkdirs(folder, NULL))
        abort();
    FILE *out = fopen(path, "wb");
    if (!out)
        abort();
    int ns = f->n_labels + 1;
    fprintf(out, "%-8s%-80s%-80s%-8s%-8s%-8d%-44s%-8d%-8s%-4d", "0", "X X X X", "Startdate 02-MAR-2022 X X X", "02.03.22",
            "04.05.06", 256 * (ns + 1), f->onsets ? "EDF+D" : "EDF+C", f->records, "1", ns);
    for (int field = 0; field < 10; field++)
        for (int s = 0; s < ns; s++) {
            bool note = s == ns - 1;
            static const int widths[10] = {16, 80, 8, 8, 8, 8, 8, 80, 8, 32};
            const char *value = "";
            snprintf(text, sizeof text, "%d", note ? 20 : f->rate);
            switch (field) {
            case 0:
                value = note ? "EDF Annotations" : f->labels[s];
                break;
            case 2:
                value = note ? "" : "uV";
                break;
            case 3:
            case 5:
                value = "-32768";
                break;
            case 4:
            case 6:
                value = "32767";
                break;
            case 8:
                value = text;
                break;
            }
            fprintf(out, "%-*s", widths[field], value);
        }
    int16_t *row = malloc(sizeof *row * (size_t)f->rate);
    for (int r = 0; r < f->records; r++) {
        for (int s = 0; s < f->n_labels; s++) {
            for (int i = 0; i < f->rate; i++)
                row[i] = (int16_t)fixture_sample(s, (int64_t)r * f->rate + i, f->rate);
            fwrite(row, sizeof *row, (size_t)f->rate, out);
        }
        char tal[40] = {0};
        snprintf(tal, sizeof tal, "+%.9g\x14\x14", f->onsets ? f->onsets[r] : r);
        fwrite(tal, 1, sizeof tal, out);
    }
    free(row);
    fclose(out);
    if (f->events) {
        char events[4400];
        snprintf(events, sizeof events, "%s", path);
        char *end = strstr(events, "_eeg.edf");
        snprintf(end, sizeof events - (size_t)(end - events), "_events.tsv");
        if (fsio_write_atomic(events, f->events, strlen(f->events), NULL))
            abort();
    }
}

#define FIXTURE_EVENTS "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n"

/* Path of a file of the optional folder of real recordings; NULL when it is not there. */
static inline const char *fixture_real(const char *name, char *path, size_t size) {
    const char *folder = getenv("BRR_EEG_DIR");
    snprintf(path, size, "%s/%s", folder && *folder ? folder : BRR_SOURCE_DIR "/../shared/eeg", name);
    return access(path, R_OK) == 0 ? path : NULL;
}
