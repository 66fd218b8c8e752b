/* banner: what stands at the top of every page about alarms: alarms of patients that are on, not of replays, those that were and
 * that nobody has acknowledged, and technical alarms in groups; and the sound that goes with them. The same when a page is written
 * and when its script updates it. */
#pragma once
#include "base/json.h"
#include "daemon/page/page.h"

enum { BANNER_NAMED = 12, BANNER_TEXT = 160 };

struct banner_link {
    const char *session, *name; /* session "": the bed has no page */
    bool answered;              /* somebody has acknowledged its alarm */
};
struct banner {
    struct banner_link on[BANNER_NAMED], was[BANNER_NAMED];
    int n_on, n_waiting, n_was; /* of all, those that are not named too; waiting: of those that are on, for an answer */
    char technical[ALARM_KINDS][BANNER_TEXT];
    int n_technical;
    enum alarm_sound sound;
};
void banner_of(const struct page_view *v, struct banner *ret);
void banner_put(struct html *h, const struct banner *b);
void banner_json(struct json_writer *w, const struct banner *b);
const char *banner_sound(const struct banner *b); /* "none", "low", "high" */
