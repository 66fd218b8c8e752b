#include "daemon/hooks/hook_format.h"

#include "base/json.h"
#include "daemon/alarms/alarm_entry.h"

enum { BODY_MAX = 16 * 1024 };

const char *hook_format_nameless(const struct journal_entry *e) {
    struct alarms_cause cause;
    switch (e->kind) {
    case JOURNAL_ALARM_ON:
        return "ALARM at a bed";
    case JOURNAL_ALARM_OFF:
        return "an alarm at a bed is off";
    case JOURNAL_ESCALATED:
        return "ALARM at a bed: nobody has answered it";
    case JOURNAL_TECHNICAL_ON:
    case JOURNAL_TECHNICAL_OFF:
        return alarm_entry_cause(e, &cause) ? alarm_kind_words(cause.kind) : "technical alarm";
    case JOURNAL_HEARTBEAT:
        return e->detail;
    default:
        return journal_kind_name(e->kind);
    }
}

/* Text of Slack, in which & < > are markup. */
static void put_slack(struct str *out, const char *text) {
    for (const char *p = text; *p; p++)
        if (*p == '&')
            str_puts(out, "&amp;");
        else if (*p == '<')
            str_puts(out, "&lt;");
        else if (*p == '>')
            str_puts(out, "&gt;");
        else
            str_append(out, p, 1);
}

static void slack(struct json_writer *w, const struct hook_message *m, const char *url) {
    struct str text = str_of(BODY_MAX);
    str_puts(&text, m->test ? "*Test* " : "");
    put_slack(&text, m->text);
    if (url)
        str_printf(&text, "\n%s", url);
    str_puts(&text, "\n_" HOOK_NOTICE "_");
    json_put_str(w, "text", str_cstr(&text));
    str_done(&text);
}

static void put_block(struct json_writer *w, const char *text, bool subtle) {
    json_begin_object(w, NULL);
    json_put_str(w, "type", "TextBlock");
    json_put_str(w, "text", text);
    json_put_bool(w, "wrap", true);
    json_put_bool(w, "isSubtle", subtle);
    json_end(w, '}');
}

/* A message with one adaptive card, as webhooks of Teams workflows take it. */
static void teams(struct json_writer *w, const struct hook_message *m, const char *url) {
    json_put_str(w, "type", "message");
    json_begin_array(w, "attachments");
    json_begin_object(w, NULL);
    json_put_str(w, "contentType", "application/vnd.microsoft.card.adaptive");
    json_begin_object(w, "content");
    json_put_str(w, "type", "AdaptiveCard");
    json_put_str(w, "version", "1.4");
    json_begin_array(w, "body");
    if (m->test)
        put_block(w, "Test", false);
    put_block(w, m->text, false);
    if (url)
        put_block(w, url, false);
    put_block(w, HOOK_NOTICE, true);
    json_end(w, ']');
    json_end(w, '}');
    json_end(w, '}');
    json_end(w, ']');
}

char *hook_format_body(enum hook_format format, const struct hook_message *m, const char *url) {
    struct str out = str_of(BODY_MAX);
    struct json_writer w = json_to(&out);
    if (format == HOOK_EMAIL) { /* its first line becomes the subject */
        str_printf(&out, "%s%s\r\n\r\n%s%s%s\r\n", m->test ? "Test: " : "", m->text, url ? url : "", url ? "\r\n\r\n" : "",
                   HOOK_NOTICE);
        return str_take(&out);
    }
    if (format == HOOK_NTFY) { /* the text of the message; its priority and tags stand in the url */
        str_printf(&out, "%s%s\n%s%s%s", m->test ? "Test: " : "", m->text, url ? url : "", url ? "\n" : "", HOOK_NOTICE);
        return str_take(&out);
    }
    json_begin_object(&w, NULL);
    if (format == HOOK_SLACK)
        slack(&w, m, url);
    else
        teams(&w, m, url);
    json_end(&w, '}');
    return str_take(&out);
}
