/* events_formats: the functions behind the table of event formats; for events.c and the files of the formats alone. */
#pragma once
#include "eeg/events.h"

/* The cell of a row that names channels. */
static inline void events_take_channels(struct event_row *row, const char *cell) {
    if (!strcmp(cell, "n/a") || !str_copy(row->channels, sizeof row->channels, cell))
        *row->channels = '\0';
}

#define EVENTS_FORMAT(id, name, ending)                                                                                            \
    void events_put_##id(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out);        \
    int events_read_##id(const char *path, struct events_file *events, struct err *err);
#include "eeg/events_formats.def"
#undef EVENTS_FORMAT
