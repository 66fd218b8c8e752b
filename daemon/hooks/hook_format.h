/* hook_format: what a receiver is told, in the format that it reads: brrd's own JSON, or a message of Slack (and Mattermost), Teams
 * or ntfy, or an e-mail. Any thread. */
#pragma once
#include "daemon/hooks/hook.h"

enum hook_format { HOOK_BRRD, HOOK_SLACK, HOOK_TEAMS, HOOK_NTFY, HOOK_EMAIL };
#define HOOK_FORMATS "brrd|slack|teams|ntfy|email" /* names, in this order */
#define HOOK_NOTICE  "not a medical device; a secondary notification without confirmed delivery"

/* The body for a receiver of this format, which is not HOOK_BRRD; url: the page about it, or NULL. malloc'd; NULL when out of
 * memory. */
char *hook_format_body(enum hook_format format, const struct hook_message *m, const char *url);
/* One sentence about the entry without any name. */
const char *hook_format_nameless(const struct journal_entry *e);
