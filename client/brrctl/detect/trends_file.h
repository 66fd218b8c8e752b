/* trends_file: the trends of a recording (plot/trends.h) as a table or a picture. */
#pragma once
#include "client/brrctl/detect/detection.h"

/* For a picture of trends: the highest probability of each epoch, and the share that events cover; malloc'd. */
struct trends_answers {
    double *values; /* (n, 2) */
    int64_t n;
};
struct trends_answers trends_summarise(const struct detection *d);
/* Writes a line for each whole epoch of the recording, or draws them below its answers if the path ends in .svg, .png or .pdf.
 * PRECONDITION when its channels do not make the montage bipolar-18. */
int trends_write(const char *recording, const struct source_reading *reading, const struct trends_answers *answers,
                 const char *path, struct err *err);
