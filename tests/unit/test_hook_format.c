/* What receivers of other makers are told: bodies that they parse, without markup of a name, and without any name where none may
 * leave. */

#include "base/json.h"
#include "daemon/hooks/hook_format.h"
#include "daemon/hooks/telling.h"
#include "unit/cmocka_all.h"

#define BED "bed <7> & \"8\""

static const struct journal_entry entry = {.kind = JOURNAL_ALARM_ON,
                                           .start_s = NAN,
                                           .end_s = NAN,
                                           .value = 0.9,
                                           .session = "6f1c",
                                           .client = BED,
                                           .principal = "token:Doe_John",
                                           .address = "10.0.0.7:4711",
                                           .live = true};
static const struct hook_message message = {.id = "1", .entry = &entry, .text = "ALARM " BED, .page = "https://ward.example"};

static char *body_of(enum hook_format format, bool hide_names) {
    char *body =
        hook_body(&(struct hook){.name = "chat", .url = "https://x", .format = (int)format, .hide_names = hide_names}, &message);
    assert_non_null(body);
    return body;
}

static struct json *parsed(const char *body) {
    struct json *json = NULL;
    struct err err;
    if (json_parse(body, strlen(body), "body", &json, &err))
        fail_msg("%s", err.message);
    return json;
}

static void slack_gets_text_without_markup(void **state) {
    (void)state;
    char *body = body_of(HOOK_SLACK, false);
    struct json *json = parsed(body);
    const char *text = json_str(json_get(json, "text"), "");
    assert_non_null(strstr(text, "ALARM bed &lt;7&gt; &amp; \"8\"\nhttps://ward.example/streams/6f1c\n"));
    assert_non_null(strstr(text, HOOK_NOTICE));
    json_free(json);
    free(body);
}

static void teams_gets_a_card(void **state) {
    (void)state;
    char *body = body_of(HOOK_TEAMS, false);
    struct json *json = parsed(body);
    const struct json *card = json_get(json_at(json_get(json, "attachments"), 0), "content");
    assert_string_equal(json_str(json_get(json, "type"), ""), "message");
    assert_string_equal(json_str(json_get(card, "type"), ""), "AdaptiveCard");
    assert_string_equal(json_str(json_get(json_at(json_get(card, "body"), 0), "text"), ""), "ALARM " BED);
    assert_int_equal(json_count(json_get(card, "body")), 3);
    json_free(json);
    free(body);
}

static void ntfy_gets_plain_text(void **state) {
    (void)state;
    char *body = body_of(HOOK_NTFY, false);
    assert_string_equal(body, "ALARM " BED "\nhttps://ward.example/streams/6f1c\n" HOOK_NOTICE);
    free(body);
}

static void no_name_leaves_where_names_are_hidden(void **state) {
    (void)state;
    for (int format = HOOK_BRRD; format <= HOOK_NTFY; format++) {
        char *body = body_of((enum hook_format)format, true);
        assert_null(strstr(body, "bed <"));
        assert_null(strstr(body, "bed &lt;"));
        assert_null(strstr(body, "Doe"));
        assert_null(strstr(body, "10.0.0.7"));
        assert_non_null(strstr(body, "ALARM at a bed"));
        assert_non_null(strstr(body, "/streams/6f1c"));
        free(body);
    }
    struct journal_entry e = entry;
    const struct hook_message test = {.id = "1", .entry = &e, .text = "TEST ALARM " BED, .test = true};
    str_copy(e.alarm, sizeof e.alarm, "test1-1-0");
    char *body = hook_body(&(struct hook){.name = "chat", .url = "https://x", .hide_names = true}, &test);
    assert_true(strstr(body, "\"TEST ALARM at a bed\"") && !strstr(body, "bed <"));
    free(body);
    assert_string_equal(entry.client, BED); /* the entry itself keeps it */
}

static void only_secure_addresses_are_taken(void **state) {
    (void)state;
    assert_true(hook_url_is_secure("https://hooks.slack.com/services/x") && hook_url_is_secure("http://127.0.0.1:8080/x"));
    assert_false(hook_url_is_secure("http://pager.example/") || hook_url_is_secure("http://localhost.evil/") ||
                 hook_url_is_secure(""));
}

/* An attempt for a new alarm has failed, and now the end of the one before may be told too: the message is the new alarm's, and
 * covers that end. Its deliveries are told apart by the order of its items. */
static void the_entry_of_a_message_is_its_last_item(void **state) {
    struct journal_line on = {.made_ms = 5, .entry = entry}, off = {.made_ms = 1, .entry = entry};
    struct telling_item before = {.line = &off}, now = {.next = &before, .line = &on}, *list = &now;
    struct telling t;
    (void)state;
    off.entry.kind = JOURNAL_ALARM_OFF;
    str_copy(on.entry.alarm, sizeof on.entry.alarm, "6f1c-2");
    str_copy(off.entry.alarm, sizeof off.entry.alarm, "6f1c-1");
    atomic_store(&on.state, LINE_WRITTEN);
    atomic_store(&off.state, LINE_WRITTEN);
    assert_true(telling_take(&list, 10, 0, &t));
    assert_true(!list && t.is_on && t.entry == &on.entry);
    assert_true(t.items == &before && before.next == &now && !now.next);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slack_gets_text_without_markup),
        cmocka_unit_test(teams_gets_a_card),
        cmocka_unit_test(ntfy_gets_plain_text),
        cmocka_unit_test(no_name_leaves_where_names_are_hidden),
        cmocka_unit_test(only_secure_addresses_are_taken),
        cmocka_unit_test(the_entry_of_a_message_is_its_last_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
