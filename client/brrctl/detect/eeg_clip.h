/* eeg_clip: some seconds of a recording as a reader wants to see them: a montage, filtered, at 256 Hz. Only the records around them
 * are read. One thread per clip. */
#pragma once
#include "eeg/frontend.h"
#include "formats/eegfile.h"

struct eeg_clip {
    const char *montage; /* that of the configuration, or the one that the recording's channels allow; borrowed */
    const char *const *names;
    int channels;
    float *uv; /* (n, channels) in µV; NaN where the recording has no samples, or samples that are no numbers */
    int64_t n;
    char custom[4096]; /* montage of a recording without the electrodes of the 10-20 system */
};
/* The seconds from from_s on. montage NULL: bipolar-18, else referential-19, else the first channels of the file as they are. The
 * filters start ten seconds earlier. PRECONDITION when the channels cannot be used. */
struct eeg_clip_config {
    const char *montage;
    double bandpass_hz[2], notch_hz; /* as in struct frontend_config */
    const char *rename;              /* likewise; NULL: none */
};
int eeg_clip_read(const struct eegfile *edf, const struct eeg_clip_config *config, double from_s, double seconds,
                  struct eeg_clip *ret, struct err *err);
void eeg_clip_done(struct eeg_clip *c);
/* notch_hz of --notch: both (also NULL), 50, 60 or none. */
double eeg_clip_notch(const char *text);
/* "notches 50 and 60 Hz", "notch 50 Hz", "notch 60 Hz" or "no notch". */
const char *eeg_clip_notch_text(double notch_hz);
