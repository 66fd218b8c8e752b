#include "formats/letters.h"
#include "formats/tal.h"
#include "unit/cmocka_all.h"

struct seen {
    char text[1024];
    int count, stop_after;
};

static int record_item(void *ctx, const struct tal_item *item) {
    struct seen *seen = ctx;
    size_t n = strlen(seen->text);
    snprintf(seen->text + n, sizeof seen->text - n, "%zu:%.4f/%.4f/%.*s|", item->list, item->onset_s,
             isnan(item->duration_s) ? -1 : item->duration_s, (int)item->text_len, item->text);
    return ++seen->count == seen->stop_after ? 7 : 0;
}

#define ASSERT_TAL(bytes, want, want_faults)                                                                                       \
    do {                                                                                                                           \
        struct seen seen = {0};                                                                                                    \
        size_t faults = 99;                                                                                                        \
        assert_int_equal(tal_parse((const uint8_t *)(bytes), sizeof(bytes) - 1, record_item, &seen, &faults), 0);                  \
        assert_string_equal(seen.text, (want));                                                                                    \
        assert_int_equal(faults, (want_faults));                                                                                   \
    } while (0)

static void lists_with_onset_duration_and_texts_are_read(void **state) {
    (void)state;
    ASSERT_TAL("+0\x14\x14\0\0\0", "0:0.0000/-1.0000/|", 0);
    ASSERT_TAL("+1.5\x15"
               "2.25\x14one\x14two\x14\0-3\x14three\x14\0\0",
               "0:1.5000/2.2500/one|0:1.5000/2.2500/two|1:-3.0000/-1.0000/three|", 0);
    ASSERT_TAL("+1,5\x14"
               "comma\x14\0",
               "0:1.5000/-1.0000/comma|", 0);
    ASSERT_TAL("+5\x15\x14no duration\x14\0", "0:5.0000/-1.0000/no duration|", 0);
    ASSERT_TAL("", "", 0);
    ASSERT_TAL("\0\0\0\0", "", 0);
}

static void lists_glued_without_nul_are_told_apart(void **state) {
    (void)state;
    ASSERT_TAL("+1.000000\x14\x14+1.140000\x14"
               "A1+A2 OFF\x14\0",
               "0:1.0000/-1.0000/|1:1.1400/-1.0000/A1+A2 OFF|", 0);
    ASSERT_TAL("+1\x14"
               "a\x14+2\x15"
               "3\x14"
               "b\x14\0",
               "0:1.0000/-1.0000/a|1:2.0000/3.0000/b|", 0);
    ASSERT_TAL("+1\x14"
               "a\x14+later\x14\0",
               "0:1.0000/-1.0000/a|0:1.0000/-1.0000/+later|", 0);
}

static void single_separator_after_a_time_keeper_is_enough(void **state) {
    (void)state;
    ASSERT_TAL("+10\x14\0+10\x14Stimulus\x14Response\x14\0",
               "0:10.0000/-1.0000/|1:10.0000/-1.0000/Stimulus|1:10.0000/-1.0000/Response|", 0);
    ASSERT_TAL("+10\x14unterminated", "0:10.0000/-1.0000/unterminated|", 0);
}

static void rubbish_is_counted_and_skipped_to_the_next_nul(void **state) {
    (void)state;
    ASSERT_TAL("66", "", 1);
    ASSERT_TAL("rubbish\x14\0+2\x14ok\x14\0+x\x14\0", "0:2.0000/-1.0000/ok|", 2);
    ASSERT_TAL("+99999999999999999999\x14too far\x14\0", "", 1);
    ASSERT_TAL("+1", "", 1);
    ASSERT_TAL("+", "", 1);
    ASSERT_TAL("+1\x15", "", 1);
}

static void visitor_ends_the_parse(void **state) {
    (void)state;
    struct seen seen = {.stop_after = 2};
    static const char bytes[] = "+0\x14"
                                "a\x14"
                                "b\x14"
                                "c\x14\0";
    assert_int_equal(tal_parse((const uint8_t *)bytes, sizeof bytes - 1, record_item, &seen, NULL), 7);
    assert_int_equal(seen.count, 2);
}

#define ASSERT_TEXT(bytes, want, want_foreign)                                                                                     \
    do {                                                                                                                           \
        char out[2 * sizeof(bytes) + 1];                                                                                           \
        bool foreign = false;                                                                                                      \
        assert_int_equal(tal_text(out, sizeof out, (const uint8_t *)(bytes), sizeof(bytes) - 1, &foreign), strlen(want));          \
        assert_string_equal(out, (want));                                                                                          \
        assert_int_equal(foreign, (want_foreign));                                                                                 \
    } while (0)

static void texts_become_trimmed_utf8(void **state) {
    (void)state;
    ASSERT_TEXT("  Fp1 ", "Fp1", 0);
    ASSERT_TEXT("uV\0\0\0rest", "uV", 0);
    ASSERT_TEXT("\xB5V", "\xC2\xB5V", 1);                       /* Latin-1 */
    ASSERT_TEXT("\xC2\xB5V", "\xC2\xB5V", 1);                   /* UTF-8 stays */
    ASSERT_TEXT("\xC3", "\xC3\x83", 1);                         /* cut UTF-8 is Latin-1 */
    ASSERT_TEXT("\xED\xA0\x80", "\xC3\xAD\xC2\xA0\xC2\x80", 1); /* a surrogate is no UTF-8 */
    ASSERT_TEXT("\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80", 1);
    ASSERT_TEXT("a\nb\x01", "a b?", 1);
    ASSERT_TEXT("", "", 0);
    ASSERT_TEXT("   ", "", 0);
}

static void text_never_overruns_its_buffer(void **state) {
    (void)state;
    char out[6];
    memset(out, 'z', sizeof out);
    assert_int_equal(tal_text(out, 5, (const uint8_t *)"ab\xB5\xB5", 4, NULL), 4);
    assert_string_equal(out, "ab\xC2\xB5");
    assert_int_equal(out[5], 'z');
}

/* tests/integration/test_lab_files.py has names of files in both ways. */
static void letters_and_their_marks_are_one_character_or_several(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"plain", "plain"},
                                           {"\xC3\xA9t\xC3\xA9", "e\xCC\x81te\xCC\x81"},             /* é t é */
                                           {"\xE1\xBB\x87", "e\xCC\xA3\xCC\x82"},                    /* ệ: two marks */
                                           {"\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"}, /* 한: three letters */
                                           {"\xED\x95\x98", "\xE1\x84\x92\xE1\x85\xA1"},
                                           {"\xE3\x81\x8C", "\xE3\x81\x8B\xE3\x82\x99"}, /* が */
                                           {"x\xFFy\xC3", "x\xFFy\xC3"}};                /* no UTF-8 */
    char buf[64];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int from = 0; from < 2; from++) {
            assert_true(letters_joined(pairs[i][from], buf, sizeof buf));
            assert_string_equal(buf, pairs[i][0]);
            assert_true(letters_apart(pairs[i][from], buf, sizeof buf));
            assert_string_equal(buf, pairs[i][1]);
        }
    assert_false(letters_apart(pairs[1][0], buf, 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_with_onset_duration_and_texts_are_read),
        cmocka_unit_test(lists_glued_without_nul_are_told_apart),
        cmocka_unit_test(single_separator_after_a_time_keeper_is_enough),
        cmocka_unit_test(rubbish_is_counted_and_skipped_to_the_next_nul),
        cmocka_unit_test(visitor_ends_the_parse),
        cmocka_unit_test(texts_become_trimmed_utf8),
        cmocka_unit_test(text_never_overruns_its_buffer),
        cmocka_unit_test(letters_and_their_marks_are_one_character_or_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
