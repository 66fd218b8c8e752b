/* /recordings/ID: the viewer over a recording. */
#include "daemon/page/shell.h"
#include "daemon/viewer/recordings.h"

bool page_recording(struct html *h, const struct page_view *v, const char *id) {
    struct recording_entry *r = recordings_find(v->recordings, v->all ? NULL : v->principal, id);
    if (!r)
        return false;
    shell_begin(h, v, &(struct shell){.title = recording_name(r), .place = SHELL_NOWHERE, .eeg = true});
    html_put(h,
             "<h1>%s</h1>\n<section class=\"eeg\" id=\"eeg\" data-eeg=\"/recordings/%s/eeg\" aria-labelledby=\"traces\"><h2 "
             "id=\"traces\">EEG</h2><noscript><p>The traces need script.</p></noscript></section>\n",
             recording_name(r), id);
    shell_end(h, v);
    recording_drop(r);
    return true;
}
