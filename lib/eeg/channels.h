/* channels: which signals of a file feed a montage, and whether they can: all of one rate, and each a voltage. Looks at headers
 * only. Pure functions, any thread. */
#pragma once

#include "eeg/frontend.h"
#include "formats/eegfile.h"

struct channels {
    const char **labels; /* of all signals that can be read, renamed, (n): the montage chooses among them */
    int *signals;        /* the file's signal of each label */
    int n;
    int n_outputs; /* channels of the montage */
    double rate_hz;
    int64_t samples_per_record;
    bool inverse;     /* bipolar file, referential montage */
    int interpolated; /* electrodes made from others */
    char *renamed;    /* memory of the labels that were renamed */
    char note[256];   /* how the montage was met, or "" */
    char faults[200]; /* what had to be assumed about the channels used, or "" */
};

static inline bool channels_usable(const struct eeg_signal *s) { return !s->annotation && s->usable && s->rate_hz > 0; }
/* Labels belong to info; call channels_done also after a failure. Errors: INVALID (settings), PRECONDITION (the montage cannot be
 * made; its channels differ in rate; one of them is no voltage), EXHAUSTED. */
int channels_choose(const struct eeg_info *info, const struct frontend_config *config, struct channels *ret, struct err *err);
/* Writes the signals that cannot be used, with the reasons, into buf: "P3 (physical minimum equals physical maximum) and 3 more";
 * "" if all can. About `room` bytes. */
void channels_ignored(const struct eeg_info *info, size_t room, char *buf, size_t size);
/* PRECONDITION: "no usable signal", with the reasons. name: the recording, or "". */
int channels_none(const struct eeg_info *info, const char *name, struct err *err);
void channels_done(struct channels *c);

/* Writes the label that the first rule for `label` gives, or label itself. rules: lines "PATTERN\tNAME", or NULL. A pattern is a
 * whole label in any letter case, in which one '*' stands for any characters; a '*' of the name becomes these. */
enum { CHANNELS_LABEL_SIZE = 164 };
void channels_rename(const char *rules, const char *label, char ret[CHANNELS_LABEL_SIZE]);
/* Appends a rule. INVALID: a pattern or name that is blank, too long, or has a tab, a line end or two '*'. */
int channels_add_rename(struct str *rules, const char *pattern, const char *name, struct err *err);

/* Checks the units of n signals: PRECONDITION names one that is no voltage. ret_faults (size) receives a sentence on signals
 * without a unit, which are read as µV, or "". */
int channels_check_units(const struct eeg_info *info, const int *signals, int n, char *ret_faults, size_t size, struct err *err);
