/* What XML of S3 says, where keys come from, what answers mean. */
#include <curl/curl.h>
#include <sys/socket.h>

#include "base/base.h"
#include "unit/temp_dir.h"

#include "store/s3_credentials.h"
#include "store/s3_error.h"
#include "store/s3_xml.h"
#include "store/sigv4.h"

static void elements_and_entities_are_read(void **state) {
    (void)state;
    const char xml[] = "<A><Key>a&amp;b&#x20;&#233;&lt;&quot;&gt;&apos;&#13;</Key><KeyCount>3</KeyCount><E/></A>";
    char text[64];
    assert_true(s3_xml_text(xml, strlen(xml), "Key", text, sizeof text));
    assert_string_equal(text, "a&b \xc3\xa9<\">'\r");
    assert_true(s3_xml_text(xml, strlen(xml), "KeyCount", text, sizeof text));
    assert_string_equal(text, "3");
    assert_false(s3_xml_text(xml, strlen(xml), "E", text, sizeof text));
    assert_false(s3_xml_text(xml, strlen(xml), "Key", text, 4));
    assert_false(s3_xml_text("<Key>x", 6, "Key", text, sizeof text));
    const char odd[] = "<Key>&</Key><B>&#0;&#x110000;&#;&nbsp;</B>";
    assert_true(s3_xml_text(odd, strlen(odd), "Key", text, sizeof text));
    assert_string_equal(text, "&");
    assert_true(s3_xml_text(odd, strlen(odd), "B", text, sizeof text));
    assert_string_equal(text, "&#0;&#x110000;&#;&nbsp;");
}

static void url_encoding_is_resolved_or_refused(void **state) {
    (void)state;
    char good[] = "a+b%2Bc%c3%A9/", *const bad[] = {(char[]){"%"}, (char[]){"%2"}, (char[]){"%zz"}, (char[]){"%00"}};
    assert_true(s3_xml_url_decode(good));
    assert_string_equal(good, "a b+c\xc3\xa9/");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(s3_xml_url_decode(bad[i]));
}

static void keys_come_from_the_profile_that_is_named(void **state) {
    struct s3_credentials c;
    struct err err = {0};
    char spec[600];
    const char text[] =
        "# keys\n[default]\naws_access_key_id=A\naws_secret_access_key = B \n[profile lab]\r\naws_access_key_id = C\r\n"
        "aws_secret_access_key=D=\r\naws_session_token = E\r\n[half]\naws_access_key_id=F\n";
    assert_int_equal(fsio_write_atomic(in_dir(state, "keys"), text, strlen(text), NULL), 0);
    str_format(spec, sizeof spec, "file:%s", in_dir(state, "keys"));
    assert_int_equal(s3_credentials_load(spec, &c, &err), 0);
    assert_string_equal(c.id, "A");
    assert_string_equal(c.secret, "B");
    assert_string_equal(c.token, "");
    str_format(spec, sizeof spec, "file:%s#lab", in_dir(state, "keys"));
    assert_int_equal(s3_credentials_load(spec, &c, &err), 0);
    assert_string_equal(c.secret, "D=");
    assert_string_equal(c.token, "E");
    static const char *const without[] = {"half", "none"};
    for (int i = 0; i < 2; i++) {
        str_format(spec, sizeof spec, "file:%s#%s", in_dir(state, "keys"), without[i]);
        assert_int_equal(s3_credentials_load(spec, &c, &err), ERR_UNAUTHENTICATED);
        assert_non_null(strstr(err.message, without[i]));
    }
    assert_int_equal(s3_credentials_load("imds", &c, &err), 0);
    assert_true(c.remote && !*c.id); /* to be asked for later */
    assert_int_equal(s3_credentials_load("secret", &c, &err), ERR_INVALID);
}

static void answers_are_tried_again_or_explained(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *code;
        bool transient;
        int err;
    } rows[] = {{503, "SlowDown", true, ERR_UNAVAILABLE},
                {500, "InternalError", true, ERR_UNAVAILABLE},
                {429, "", true, ERR_UNAVAILABLE},
                {400, "RequestTimeout", true, ERR_UNAVAILABLE},
                {403, "AccessDenied", false, ERR_DENIED},
                {403, "", false, ERR_DENIED},
                {404, "NoSuchKey", false, ERR_NOT_FOUND},
                {404, "NoSuchBucket", false, ERR_NOT_FOUND},
                {412, "", false, ERR_ABORTED},
                {416, "InvalidRange", false, ERR_RANGE},
                {418, "Odd", false, ERR_INVALID},
                {501, "NotImplemented", false, ERR_UNSUPPORTED}};
    struct fetch_request *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct s3_error e;
        struct err err = {0};
        a->status = rows[i].status;
        str_format(a->note, sizeof a->note, *rows[i].code ? "<Error><Code>%s</Code></Error>" : "%s", rows[i].code);
        a->note_len = strlen(a->note);
        s3_error_read(a, &e);
        assert_int_equal(e.transient, rows[i].transient);
        assert_int_equal(s3_error_set(&e, a, "s3://bucket/key", 3, &err), rows[i].err);
        assert_non_null(strstr(err.message, "s3://bucket/key: "));
    }
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_and_entities_are_read),
        cmocka_unit_test(url_encoding_is_resolved_or_refused),
        in_temp_dir(keys_come_from_the_profile_that_is_named),
        cmocka_unit_test(answers_are_tried_again_or_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
