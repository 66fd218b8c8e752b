#include "daemon/page/answer_forms.h"

#include "daemon/page/words.h"

enum { BED_ALARMS = 32 /* in one form */ };

static bool may_answer(const struct page_view *v, const struct alarm *a) {
    return !v->wall && page_answers(v, a->principal, a->bed);
}

/* ids: of alarms, with spaces between them. */
static void begin_form(struct html *h, const char *ids, const char *next) {
    html_put(h,
             "<form class=\"answer\" method=\"post\" action=\"/alarms\"><input type=\"hidden\" name=\"alarm\" value=\"%s\"><input "
             "type=\"hidden\" name=\"next\" value=\"%s\">",
             ids, next);
}

static void put_button(struct html *h, const struct alarm *a, const char *action, const char *text) {
    html_put(h, "<button type=\"submit\" name=\"action\" value=\"%s\" aria-label=\"%s: %s\">%s</button>", action, text, a->bed,
             text);
}

/* Of an alarm that waits: what ends its sound. */
static void put_buttons(struct html *h, const struct page_view *v, const struct alarm *a) {
    if (!alarm_is_waiting(a))
        return;
    put_button(h, a, "acknowledge", "Acknowledge");
    if (alarm_sound(a, v->status->boot_ms))
        put_button(h, a, "silence", "Silence 2 min");
}

static void put_name_field(struct html *h, const struct page_view *v) {
    html_put(h, "<label>Your name <input type=\"text\" name=\"person\" maxlength=\"60\" autocomplete=\"name\"");
    if (v->person)
        html_put(h, " value=\"%s\" readonly", v->person);
    html_put(h, "></label>");
}

void answer_forms_put_short(struct html *h, const struct page_view *v, const struct alarm *a) {
    if (!may_answer(v, a) || !alarm_is_waiting(a))
        return;
    begin_form(h, a->id, "/streams");
    html_put(h, "<input type=\"hidden\" name=\"person\" value=\"\">");
    put_buttons(h, v, a);
    html_put(h, "</form>");
}

void answer_forms_put_silence(struct html *h, const struct page_view *v, const struct alarm *a) {
    if (!alarm_is_silent(a, v->status->boot_ms))
        return;
    html_put(h, "<p class=\"silent\">silent until ");
    words_put_short_time(h, a->silent_ms);
    html_put(h, ", by %s</p>", alarm_author_name(&a->silenced));
}

static void put_marks(struct html *h, const struct alarm *a) {
    static const char *const words[ALARM_MARKS] = {
        [ALARM_UNMARKED] = "Not marked", [ALARM_TRUE] = "True alarm", [ALARM_FALSE] = "False alarm", [ALARM_UNCLEAR] = "Unclear"};
    for (int i = ALARM_TRUE; i < ALARM_MARKS; i++) {
        html_put(h, "<button type=\"submit\" name=\"mark\" value=\"%s\" aria-pressed=\"%s\">%s</button>",
                 alarm_mark_name((enum alarm_mark)i), (int)a->mark == i ? "true" : "false", words[i]);
    }
}

/* The next alarm of this bed that waits for an answer of the reader. */
static const struct alarm *next_waiting(const struct page_view *v, const char *bed, int *at) {
    while (*at < v->status->n_alarms) {
        const struct alarm *a = v->status->alarms[(*at)++];
        if (alarm_is_waiting(a) && !strcmp(a->bed, bed) && may_answer(v, a))
            return a;
    }
    return NULL;
}

/* With the first of several alarms of a bed: one press for those that are listed, and for no later one. */
static void put_all_of_bed(struct html *h, const struct page_view *v, const struct alarm *a, const char *next) {
    int at = 0, n = 1;
    const bool first = next_waiting(v, a->bed, &at) == a;
    const struct alarm *b = first ? next_waiting(v, a->bed, &at) : NULL;
    if (!b)
        return;
    OWNED(str_done) struct str ids = str_of(BED_ALARMS * JOURNAL_ALARM);
    str_puts(&ids, a->id);
    for (; b && n < BED_ALARMS; b = next_waiting(v, a->bed, &at), n++)
        str_printf(&ids, " %s", b->id);
    begin_form(h, str_cstr(&ids), next);
    html_put(h,
             "<input type=\"hidden\" name=\"person\" value=\"\"><button type=\"submit\" name=\"action\" "
             "value=\"acknowledge\">Acknowledge all %d of %s</button></form>",
             n, *a->bed ? a->bed : "brrd");
}

void answer_forms_put(struct html *h, const struct page_view *v, const struct alarm *a, const char *next) {
    if (!may_answer(v, a))
        return;
    begin_form(h, a->id, next);
    put_name_field(h, v);
    put_buttons(h, v, a);
    if (a->kind == ALARM_SEIZURE)
        put_marks(h, a);
    html_put(h, "<label>Note <input type=\"text\" name=\"note\" maxlength=\"200\" value=\"%s\"></label>", a->note);
    html_put(h, "<button type=\"submit\" name=\"action\" value=\"note\">Keep the note</button></form>");
    put_all_of_bed(h, v, a, next);
}

void answer_forms_put_bed(struct html *h, const struct page_view *v) {
    if (!v->answers)
        return;
    html_put(h, "<section aria-labelledby=\"standby\"><h2 id=\"standby\">Standby and test</h2><form class=\"answer\" "
                "method=\"post\" action=\"/alarms\"><input type=\"hidden\" name=\"next\" value=\"/alarms\"><label>Bed <input "
                "type=\"text\" name=\"bed\" maxlength=\"127\" required list=\"beds\"></label><datalist id=\"beds\">");
    for (int i = 0; i < v->status->n_streams; i++)
        if (page_sees(v, &v->status->streams[i]) && *v->status->streams[i].bed.name)
            html_put(h, "<option value=\"%s\"></option>", v->status->streams[i].bed.name);
    html_put(h, "</datalist>");
    put_name_field(h, v);
    html_put(h, "<button type=\"submit\" name=\"standby\" value=\"30\">Standby 30 min</button><button type=\"submit\" "
                "name=\"standby\" value=\"120\">2 h</button><button type=\"submit\" name=\"standby\" value=\"0\">End of "
                "standby</button><button type=\"submit\" name=\"action\" value=\"test\">Test alarm</button></form><p "
                "class=\"hint\">A bed in standby has no technical alarms; the alarms of its patient go on. A test alarm lasts 20 s "
                "and calls whom an alarm calls, until it is acknowledged.</p></section>\n");
}
