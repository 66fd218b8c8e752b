#include "base/base.h"
#include "unit/temp_dir.h"

#include "trust/token.h"

/* printf 'secret' | sha256sum, and of "other". */
static const char secret_sum[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
static const char other_sum[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

static void digest_of(const char *text, unsigned char ret[TOKEN_DIGEST]) {
    assert_int_equal(token_digest(text, strlen(text), ret, NULL), 0);
}

static const char *put(void **state, const char *text) {
    const char *path = in_dir(state, "tokens");
    put_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
    return path;
}

/* As the daemon reads its tokens. */
static int read_tokens(const char *path, const struct tokens *previous, struct tokens **ret, struct err *err) {
    char *text = NULL;
    size_t len;
    int rc = fsio_check_mode(path, TOKENS_FILE_FORBIDDEN, err);
    if (!rc)
        rc = fsio_read(path, TOKENS_FILE_MAX, &text, &len, err);
    if (!rc)
        rc = tokens_parse(text, path, previous, ret, err);
    free(text);
    return rc;
}

static void a_listed_token_has_its_name_and_role(void **state) {
    char text[400];
    str_format(text, sizeof text, "# lab\n\nread nurse.station %s\n\tsubmit  ana  %s \r\n", secret_sum, other_sum);
    struct tokens *t = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST];
    struct err err = {0};
    if (read_tokens(put(state, text), NULL, &t, &err))
        fail_msg("%s", err.message);
    assert_int_equal(tokens_count(t), 2);
    digest_of("secret", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_string_equal(found.name, "nurse.station");
    assert_int_equal(found.role, ROLE_READ);
    digest_of("other", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_int_equal(found.role, ROLE_SUBMIT);
    digest_of("secre", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_UNKNOWN);
    digest_of("", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_UNKNOWN);
    tokens_free(t);
}

static void a_token_expires_after_its_last_day(void **state) {
    char text[200];
    str_format(text, sizeof text, "admin ana %s until=1970-01-02\n", secret_sum);
    struct tokens *t = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST];
    assert_int_equal(read_tokens(put(state, text), NULL, &t, NULL), 0);
    digest_of("secret", digest);
    assert_int_equal(tokens_find(t, digest, 2 * 24 * 3600 * 1000 - 1, &found), TOKEN_VALID);
    assert_int_equal(tokens_find(t, digest, 2 * 24 * 3600 * 1000, &found), TOKEN_EXPIRED);
    assert_string_equal(found.name, "ana");
    tokens_free(t);
}

static void a_token_sees_the_streams_of_all_callers_if_its_line_says_so(void **state) {
    char text[400];
    str_format(text, sizeof text, "read station %s all until=1970-01-02\nread ana %s until=1970-01-02\n", secret_sum, other_sum);
    struct tokens *t = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST];
    assert_int_equal(read_tokens(put(state, text), NULL, &t, NULL), 0);
    digest_of("secret", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_true(found.all && found.until_ms);
    digest_of("other", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_true(!found.all && found.until_ms);
    tokens_free(t);
}

static void a_token_answers_alarms_of_the_beds_that_its_line_names(void **state) {
    char text[400];
    str_format(text, sizeof text, "read nurse %s names=bed-7,icu-* until=2099-01-02 answer proxy all\nread ana %s\n", secret_sum,
               other_sum);
    struct tokens *t = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST];
    assert_int_equal(read_tokens(put(state, text), NULL, &t, NULL), 0);
    digest_of("secret", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_true(found.answer && found.all && found.proxy && found.until_ms);
    assert_true(token_names_match(found.names, "bed-7") && token_names_match(found.names, "icu-12"));
    assert_false(token_names_match(found.names, "bed-70") || token_names_match(found.names, "bed-7,icu-*x") ||
                 token_names_match(found.names, ""));
    digest_of("other", digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    assert_true(!found.answer && !found.proxy && token_names_match(found.names, "bed-70"));
    tokens_free(t);
}

static void a_bed_is_held_by_the_tokens_that_name_it_and_may_stream(void **state) {
    char text[400];
    str_format(text, sizeof text, "read screen %s names=bed-*\nstream a %s names=bed-7 until=2099-01-02\n", secret_sum, other_sum);
    struct tokens *t = NULL;
    assert_int_equal(read_tokens(put(state, text), NULL, &t, NULL), 0);
    assert_int_equal(tokens_name_bed(t, "a", "bed-7", 0), 1);
    assert_int_equal(tokens_name_bed(t, "a,certificate:c", "bed-7", 0), 1);
    assert_int_equal(tokens_name_bed(t, "screen", "bed-7", 0), 0);
    assert_int_equal(tokens_name_bed(t, "", "bed-7", 0), 0);
    assert_int_equal(tokens_name_bed(t, "screen", "bed-8", 0), -1);
    assert_int_equal(tokens_name_bed(t, "a", "bed-7", INT64_C(5000000000000)), -1); /* it has expired */
    tokens_free(t);
}

static void a_removed_token_is_revoked_until_it_is_listed_again(void **state) {
    char both[300], one[200], marked[200];
    str_format(both, sizeof both, "read a %s\nread b %s\n", secret_sum, other_sum);
    str_format(one, sizeof one, "read b %s\n", other_sum);
    str_format(marked, sizeof marked, "revoked b %s\n", other_sum);
    struct tokens *first = NULL, *second = NULL, *third = NULL, *fourth = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST], other[TOKEN_DIGEST];
    digest_of("secret", digest);
    digest_of("other", other);
    assert_int_equal(read_tokens(put(state, both), NULL, &first, NULL), 0);
    assert_int_equal(read_tokens(put(state, one), first, &second, NULL), 0);
    assert_int_equal(tokens_find(second, digest, 0, &found), TOKEN_REVOKED);
    assert_string_equal(found.name, "a");
    assert_int_equal(tokens_find(second, other, 0, &found), TOKEN_VALID);
    assert_int_equal(tokens_count(second), 1);
    assert_int_equal(read_tokens(put(state, both), second, &third, NULL), 0);
    assert_int_equal(tokens_find(third, digest, 0, &found), TOKEN_VALID);
    assert_int_equal(read_tokens(put(state, marked), NULL, &fourth, NULL), 0);
    assert_int_equal(tokens_find(fourth, other, 0, &found), TOKEN_REVOKED);
    tokens_free(first);
    tokens_free(second);
    tokens_free(third);
    tokens_free(fourth);
}

static enum token_result found(const struct tokens *t, const char *token) {
    unsigned char digest[TOKEN_DIGEST];
    struct token ret;
    digest_of(token, digest);
    return tokens_find(t, digest, 0, &ret);
}

/* A file that is being written, copied or emptied revokes nobody; one that stays as it is does. */
static void a_vanished_line_counts_once_the_file_has_settled(void **state) {
    (void)state;
    char both[300], one[200], marked[300], cut[300];
    str_format(both, sizeof both, "read a %s\nread b %s\n", secret_sum, other_sum);
    str_format(one, sizeof one, "read b %s\n", other_sum);
    str_format(marked, sizeof marked, "read a %s\nrevoked b %s\n", secret_sum, other_sum);
    struct tokens *first = NULL, *second = NULL, *third = NULL, *none = NULL;
    struct err err = {0};
    assert_int_equal(tokens_parse(both, "t", NULL, &first, NULL), 0);
    assert_int_equal(tokens_reparse(one, "t", first, false, &second, NULL), 0);
    assert_int_equal(found(second, "secret"), TOKEN_VALID);
    assert_int_equal(tokens_vanished(second), 1);
    str_format(one, sizeof one, "read b %s\n", other_sum);
    assert_int_equal(tokens_reparse(one, "t", second, true, &third, NULL), 0);
    assert_int_equal(found(third, "secret"), TOKEN_REVOKED);
    assert_int_equal(found(third, "other"), TOKEN_VALID);
    assert_int_equal(tokens_vanished(third), 0);
    tokens_free(third);
    assert_int_equal(tokens_reparse(marked, "t", first, false, &third, NULL), 0);
    assert_int_equal(found(third, "other"), TOKEN_REVOKED); /* at once */
    assert_int_equal(found(third, "secret"), TOKEN_VALID);
    str_format(cut, sizeof cut, "read a %s\nread b %s", secret_sum, other_sum);
    char empty[] = "", comment[] = "# none\n";
    char *const refused[] = {empty, comment, cut};
    for (int i = 0; i < 3; i++)
        for (int settled = 0; settled < 2; settled++)
            assert_int_equal(tokens_reparse(refused[i], "t", first, settled, &none, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "line feed"));
    assert_null(none);
    tokens_free(first);
    tokens_free(second);
    tokens_free(third);
}

static void a_bad_line_is_named_and_never_repeated(void **state) {
    const struct {
        const char *text, *word;
    } cases[] = {{"admin ana\n", ":1: 2 words"},
                 {"\n#\nroot ana 00\n", ":3: there is no role 'root'"},
                 {"admin ana brr_plain_token\n", ":1: the third word is no SHA-256"},
                 {"admin a/b 00\n", ":1: bad name"},
                 {"admin ana %s until=2026-13-01\n", "until=YYYY-MM-DD"},
                 {"admin ana %s until=2026-02-30\n", ":1: 'until=2026-02-30'; expected all"},
                 {"\nread ana %s names=bed-[1-4\n", ":2: 'names=bed-[1-4' has a [ without its ]; expected one such as bed-[1-4]"},
                 {"read ana %s names=icu-*,bed-[1,2]\n", ":1: 'names=icu-*,bed-[1,2]' has a ["},
                 {"read ana %s answer answer\n", "each once"},
                 {"read ana %s names=\n", "'names='"},
                 {"read ana %s names=bed-7,\n", "'names=bed-7,'"},
                 {"read ana %s names=a names=b\n", "'names=b'"},
                 {"read ana %s every\n", "expected all, answer"},
                 {"admin ana %s\nread bob %s\n", ":2: an earlier line"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400] = "", *at = text;
        for (const char *p = cases[i].text; *p; p++) {
            if (*p == '%') {
                memcpy(at, secret_sum, 64);
                at += 64;
                p++;
            } else {
                *at++ = *p;
            }
        }
        struct tokens *t = NULL;
        struct err err = {0};
        assert_int_equal(read_tokens(put(state, text), NULL, &t, &err), ERR_INVALID);
        if (!strstr(err.message, cases[i].word) || strstr(err.message, "plain") || strstr(err.cause, "plain"))
            fail_msg("%s", err.message);
        assert_null(t);
    }
}

static void a_file_that_others_may_change_or_read_is_refused(void **state) {
    const char *path = put(state, "");
    struct tokens *t = NULL;
    struct err err = {0};
    static const unsigned bad[] = {0604, 0620, 0602, 0666};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chmod(path, bad[i]), 0);
        assert_int_equal(read_tokens(path, NULL, &t, &err), ERR_DENIED);
        assert_non_null(strstr(err.message, "run: chmod 6"));
    }
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(read_tokens(path, NULL, &t, &err), 0);
    assert_int_equal(tokens_count(t), 0);
    tokens_free(t);
    assert_int_equal(read_tokens(in_dir(state, "none"), NULL, &t, &err), ERR_NOT_FOUND);
}

static void made_tokens_are_found_by_their_digest(void **state) {
    char a[TOKEN_SIZE], b[TOKEN_SIZE], a_hex[TOKEN_HEX_SIZE], b_hex[TOKEN_HEX_SIZE], text[300];
    struct tokens *t = NULL;
    struct token found;
    unsigned char digest[TOKEN_DIGEST];
    assert_int_equal(token_make(a, a_hex, NULL), 0);
    assert_int_equal(token_make(b, b_hex, NULL), 0);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 68);
    str_format(text, sizeof text, "stream bed-7 %s", a_hex);
    assert_int_equal(read_tokens(put(state, text), NULL, &t, NULL), 0);
    digest_of(a, digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_VALID);
    digest_of(b, digest);
    assert_int_equal(tokens_find(t, digest, 0, &found), TOKEN_UNKNOWN);
    tokens_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(a_listed_token_has_its_name_and_role),
        in_temp_dir(a_token_expires_after_its_last_day),
        in_temp_dir(a_token_sees_the_streams_of_all_callers_if_its_line_says_so),
        in_temp_dir(a_token_answers_alarms_of_the_beds_that_its_line_names),
        in_temp_dir(a_bed_is_held_by_the_tokens_that_name_it_and_may_stream),
        in_temp_dir(a_removed_token_is_revoked_until_it_is_listed_again),
        in_temp_dir(a_vanished_line_counts_once_the_file_has_settled),
        in_temp_dir(a_bad_line_is_named_and_never_repeated),
        in_temp_dir(a_file_that_others_may_change_or_read_is_refused),
        in_temp_dir(made_tokens_are_found_by_their_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
