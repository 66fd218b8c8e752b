/* trends_file: the trends of a recording (eeg/trends.h) as a table or a picture. */
#pragma once
#include "client/brrctl/detect/source.h"

/* Writes a line for each whole epoch of the recording, or draws them if the path ends in .svg, .png or .pdf. PRECONDITION when its
 * channels do not make the montage bipolar-18. */
int trends_write(const char *recording, const struct source_reading *reading, const char *path, struct err *err);
