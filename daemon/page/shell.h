/* shell: what all pages have: head, navigation, the line of alarms, foot. For the pages. */
#pragma once
#include "daemon/page/page.h"

enum shell_place { SHELL_OVERVIEW, SHELL_STREAMS, SHELL_ALARMS, SHELL_JOBS, SHELL_MODELS, SHELL_NOWHERE };

/* live: the page follows the daemon by its script, or is loaded again every few seconds without. */
struct shell {
    const char *title;
    enum shell_place place;
    bool live;
    bool sounds;  /* it makes the sound of alarms */
    bool eeg;     /* it has a viewer of EEG */
    bool answers; /* of readers about what the viewer shows */
};
void shell_begin(struct html *h, const struct page_view *v, const struct shell *s); /* v may be NULL */
void shell_end(struct html *h, const struct page_view *v);

/* "<dt>name</dt><dd>text</dd>". */
void shell_put_fact(struct html *h, const char *name, const char *text);
