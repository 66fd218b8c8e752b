/* /recordings/ID: the viewer over a recording, and the form that answers its events, which the script answers.js works. */

#include "daemon/page/shell.h"
#include "daemon/viewer/recordings.h"
#include "eeg/correction.h"

static void put_types(struct html *h) {
    char type[LABELS_CODE_SIZE];
    html_put(h, "<label>Type <select name=\"type\">");
    for (const char *at = answer_types; *at; at += *at == '|') {
        const int n = (int)strcspn(at, "|");
        str_format(type, sizeof type, "%.*s", n, at);
        html_put(h, "<option>%s</option>", type);
        at += n;
    }
    html_put(h, "</select></label>\n");
}

static void put_answer_form(struct html *h, const struct page_view *v) {
    static const struct {
        const char *verb, *text, *key;
    } buttons[] = {
        {"accept", "Seizure", "A"}, {"reject", "No seizure", "R"}, {"unsure", "Unsure", "U"}, {"withdraw", "Take back", "T"}};
    html_put(h, "<form class=\"answer\" method=\"post\" hidden>\n"
                "<label>Onset (s) <input type=\"number\" name=\"onset\" min=\"0\" step=\"0.01\"></label>\n"
                "<label>End (s) <input type=\"number\" name=\"end\" min=\"0\" step=\"0.01\"></label>\n");
    put_types(h);
    html_put(h,
             "<label>Certainty <select name=\"confidence\"><option value=\"\">not stated</option><option>1</option>"
             "<option>0.75</option><option>0.5</option><option>0.25</option></select></label>\n"
             "<label>Comment <input type=\"text\" name=\"comment\" maxlength=\"%d\"></label>\n"
             "<label>Your name <input type=\"text\" name=\"reader\" maxlength=\"%d\" autocomplete=\"name\" required",
             ANSWER_COMMENT_SIZE - 1, ANSWER_READER_SIZE - 1);
    if (v->person)
        html_put(h, " value=\"%s\" readonly", v->person);
    html_put(h, "></label>\n<div>");
    for (size_t i = 0; i < sizeof buttons / sizeof *buttons; i++)
        html_put(h, "<button type=\"submit\" name=\"action\" value=\"%s\" title=\"%s (%s)\">%s</button>\n", buttons[i].verb,
                 buttons[i].text, buttons[i].key, buttons[i].text);
    html_put(h, "<button type=\"button\" name=\"new\" title=\"New event (E)\">New event</button>\n"
                "<button type=\"submit\" name=\"action\" value=\"done\">No other seizure</button></div>\n</form>\n");
}

bool page_recording(struct html *h, const struct page_view *v, const char *id) {
    struct recording_entry *r = recordings_find(v->recordings, v->all ? NULL : v->principal, id);
    struct correction_place place;
    if (!r)
        return false;
    const bool answers = recording_answers(r, &place);
    shell_begin(h, v, &(struct shell){.title = recording_name(r), .place = SHELL_NOWHERE, .eeg = true, .answers = answers});
    html_put(h,
             "<h1>%s</h1>\n<section class=\"eeg\" id=\"eeg\" data-eeg=\"/recordings/%s/eeg\" data-at=\"%.2f\" "
             "aria-labelledby=\"traces\"><h2 id=\"traces\">EEG</h2><noscript><p>The traces need script.</p></noscript>\n",
             recording_name(r), id, recording_at(r));
    if (answers && v->corrects)
        put_answer_form(h, v);
    html_put(h, "</section>\n");
    if (answers)
        html_put(h,
                 "<section id=\"answers\" data-answers=\"/recordings/%s/answers\" data-labels=\"/recordings/%s/labels.tsv\" "
                 "aria-labelledby=\"read\"><h2 id=\"read\">Events</h2></section>\n",
                 id, id);
    shell_end(h, v);
    recording_drop(r);
    return true;
}
