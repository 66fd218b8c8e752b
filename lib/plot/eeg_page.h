/* eeg_page: a picture of some seconds of EEG as clinicians read it: channels below each other, negative up, chains of the left in
 * blue and of the right in red, clock time, events and alarms. One thread per picture. */
#pragma once
#include "plot/plot.h"

struct str;

enum { EEG_PAGE_CHANNELS = 64 };

/* Times are seconds of the recording. */
struct eeg_page {
    const char *title, *subtitle;
    double from_s, seconds;
    bool has_clock;
    double clock_s; /* time of day at which the recording began, in seconds */
    int channels;
    double rate_hz;
    const char *const *names; /* "Fp1-F7", "Cz": an odd electrode is left, an even one right */
    const float *uv;          /* (n, channels); NaN: no sample */
    int64_t n;
    const struct plot_span *detected, *reference; /* detected NULL: nobody looked, so that there is no such row */
    int n_detected, n_reference;
    const double *alarms_s; /* when alarms turned on */
    int n_alarms;
    bool has_reference, has_alarms; /* rows are drawn even without an entry */
};
/* Appends the SVG. INVALID without a channel or a second. */
int eeg_page_draw(const struct eeg_page *page, struct str *out, struct err *err);
/* µV between two channels of the page: a round number at which the traces have room. */
double eeg_page_spacing_uv(const struct eeg_page *page);
