/* The signer: the worked examples of the Amazon S3 API reference (24 May 2013), and encoding rules. */

#include "store/digest.h"
#include "store/sigv4.h"
#include "unit/cmocka_all.h"

static const struct sigv4_key example = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1",
                                         "20130524T000000Z"};
#define HOST                                                                                                                       \
    { "host", "examplebucket.s3.amazonaws.com" }
#define DATE                                                                                                                       \
    { "x-amz-date", "20130524T000000Z" }
#define EMPTY                                                                                                                      \
    { "x-amz-content-sha256", SIGV4_EMPTY_SHA256 }

static void check(const struct sigv4_request *request, const char *names, const char *signature) {
    struct str got;
    char want[600];
    struct err err = {0};
    str_init(&got, 4096);
    assert_int_equal(sigv4_sign(request, &example, &got, &err), 0);
    str_format(want, sizeof want,
               "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s",
               names, signature);
    assert_string_equal(str_cstr(&got), want);
    str_done(&got);
}

static void example_get_object(void **state) {
    (void)state;
    const struct sigv4_pair headers[] = {HOST, {"range", "bytes=0-9"}, EMPTY, DATE};
    check(&(struct sigv4_request){"GET", "/test.txt", NULL, 0, headers, 4, SIGV4_EMPTY_SHA256},
          "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void example_put_object(void **state) {
    (void)state;
    char sha[DIGEST_HEX_SIZE];
    const char body[] = "Welcome to Amazon S3.";
    assert_true(digest_bytes(body, strlen(body), sha));
    const struct sigv4_pair headers[] = {DATE,
                                         {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                         HOST,
                                         {"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                         {"x-amz-content-sha256", sha}};
    check(&(struct sigv4_request){"PUT", "/test$file.text", NULL, 0, headers, 5, sha},
          "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
          "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void example_get_bucket_lifecycle(void **state) {
    (void)state;
    const struct sigv4_pair headers[] = {HOST, EMPTY, DATE}, query[] = {{"lifecycle", ""}};
    check(&(struct sigv4_request){"GET", "/", query, 1, headers, 3, SIGV4_EMPTY_SHA256}, "host;x-amz-content-sha256;x-amz-date",
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void example_list_objects_in_any_order_of_parameters(void **state) {
    (void)state;
    const struct sigv4_pair headers[] = {EMPTY, DATE, HOST}, query[] = {{"prefix", "J"}, {"max-keys", "2"}};
    check(&(struct sigv4_request){"GET", "/", query, 2, headers, 3, SIGV4_EMPTY_SHA256}, "host;x-amz-content-sha256;x-amz-date",
          "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void blanks_of_header_values_do_not_count(void **state) {
    (void)state;
    const struct sigv4_pair headers[] = {HOST, {"range", "  bytes=0-9 \t"}, EMPTY, DATE};
    check(&(struct sigv4_request){"GET", "/test.txt", NULL, 0, headers, 4, SIGV4_EMPTY_SHA256},
          "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void reserved_bytes_are_encoded_and_unreserved_are_not(void **state) {
    (void)state;
    struct str s;
    str_init(&s, 1000);
    sigv4_encode("a/b c+d=e@f(g)*'!,:;$&%~-_.\xc3\xa9", true, &s);
    assert_string_equal(str_cstr(&s), "a/b%20c%2Bd%3De%40f%28g%29%2A%27%21%2C%3A%3B%24%26%25~-_.%C3%A9");
    str_clear(&s);
    sigv4_encode("a/b", false, &s);
    assert_string_equal(str_cstr(&s), "a%2Fb");
    str_done(&s);
}

static void parameters_are_sorted_by_encoded_name_then_value(void **state) {
    (void)state;
    const struct sigv4_pair query[] = {{"prefix", "a/+ b"}, {"a-b", "2"}, {"list-type", "2"},
                                       {"uploads", ""},     {"a", "1"},   {"a", "0"}};
    struct err err = {0};
    struct str s;
    str_init(&s, 1000);
    assert_int_equal(sigv4_query(query, 6, &s, &err), 0);
    assert_string_equal(str_cstr(&s), "a=0&a=1&a-b=2&list-type=2&prefix=a%2F%2B%20b&uploads=");
    str_done(&s);
}

static void too_many_headers_are_refused(void **state) {
    (void)state;
    struct sigv4_pair headers[SIGV4_MAX_PAIRS + 1];
    struct err err = {0};
    struct str s;
    str_init(&s, 1000);
    for (int i = 0; i <= SIGV4_MAX_PAIRS; i++)
        headers[i] = (struct sigv4_pair){"x", "y"};
    const struct sigv4_request r = {"GET", "/", NULL, 0, headers, SIGV4_MAX_PAIRS + 1, SIGV4_UNSIGNED};
    assert_int_equal(sigv4_sign(&r, &example, &s, &err), ERR_INVALID);
    str_done(&s);
}

static void dates_are_utc_in_basic_format(void **state) {
    (void)state;
    char date[SIGV4_DATE_SIZE];
    sigv4_date(1369353600, date);
    assert_string_equal(date, "20130524T000000Z");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_get_object),
        cmocka_unit_test(example_put_object),
        cmocka_unit_test(example_get_bucket_lifecycle),
        cmocka_unit_test(example_list_objects_in_any_order_of_parameters),
        cmocka_unit_test(blanks_of_header_values_do_not_count),
        cmocka_unit_test(reserved_bytes_are_encoded_and_unreserved_are_not),
        cmocka_unit_test(parameters_are_sorted_by_encoded_name_then_value),
        cmocka_unit_test(too_many_headers_are_refused),
        cmocka_unit_test(dates_are_utc_in_basic_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
