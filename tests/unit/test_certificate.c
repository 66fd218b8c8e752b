#include "trust/certificate.h"
#include "unit/cmocka_all.h"

struct lab {
    struct certificate_pair ca, other_ca, client;
    struct authorities *trusted;
};

static int issue(const struct certificate_pair *ca, const char *name, int days, struct certificate_pair *ret) {
    const struct certificate_request request = {.name = name, .days = days};
    return certificate_issue(ca, &request, ret, NULL);
}

static int make(void **state) {
    static struct lab lab;
    lab = (struct lab){0};
    *state = &lab;
    return certificate_make_authority("lab", &lab.ca, NULL) || certificate_make_authority("lab", &lab.other_ca, NULL) ||
           issue(&lab.ca, "bed-7", 30, &lab.client) || authorities_read(lab.ca.certificate, &lab.trusted, NULL);
}

static int drop(void **state) {
    struct lab *lab = *state;
    certificate_pair_done(&lab->ca);
    certificate_pair_done(&lab->other_ca);
    certificate_pair_done(&lab->client);
    authorities_free(lab->trusted);
    return 0;
}

static enum certificate_result verify(const struct lab *lab, const char *chain, size_t len, const char *name) {
    char found[CERTIFICATE_NAME_SIZE];
    const char *why = NULL;
    enum certificate_result result = authorities_verify(lab->trusted, chain, len, found, &why);
    assert_non_null(why);
    assert_string_equal(found, name);
    return result;
}

static void a_certificate_of_the_ca_is_valid(void **state) {
    const struct lab *lab = *state;
    assert_int_equal(verify(lab, lab->client.certificate, strlen(lab->client.certificate), "bed-7"), CERTIFICATE_VALID);
}

static void a_ca_of_the_same_name_is_foreign(void **state) {
    struct lab *lab = *state;
    struct certificate_pair pair;
    assert_int_equal(issue(&lab->other_ca, "bed-7", 30, &pair), 0);
    assert_int_equal(verify(lab, pair.certificate, strlen(pair.certificate), "bed-7"), CERTIFICATE_FOREIGN_CA);
    certificate_pair_done(&pair);
    assert_int_equal(verify(lab, lab->other_ca.certificate, strlen(lab->other_ca.certificate), "lab"), CERTIFICATE_FOREIGN_CA);
}

static void an_expired_certificate_is_expired(void **state) {
    struct lab *lab = *state;
    struct certificate_pair pair;
    assert_int_equal(issue(&lab->ca, "bed-6", -1, &pair), 0);
    assert_int_equal(verify(lab, pair.certificate, strlen(pair.certificate), "bed-6"), CERTIFICATE_EXPIRED);
    certificate_pair_done(&pair);
}

static void a_server_certificate_is_no_client_certificate(void **state) {
    struct lab *lab = *state;
    struct certificate_pair pair;
    const char *const hosts[] = {"localhost", "127.0.0.1", "::1", "*.lab.example"};
    const struct certificate_request request = {.name = "brrd", .hosts = hosts, .n_hosts = 4, .days = 30};
    struct err err = {0};
    if (certificate_issue(&lab->ca, &request, &pair, &err))
        fail_msg("%s", err.message);
    assert_int_equal(verify(lab, pair.certificate, strlen(pair.certificate), "brrd"), CERTIFICATE_INVALID);
    certificate_pair_done(&pair);
}

static void garbage_is_invalid(void **state) {
    struct lab *lab = *state;
    size_t len = strlen(lab->client.certificate);
    assert_int_equal(verify(lab, "", 0, ""), CERTIFICATE_INVALID);
    assert_int_equal(verify(lab, "garbage", 7, ""), CERTIFICATE_INVALID);
    assert_int_equal(verify(lab, lab->client.certificate, len / 2, ""), CERTIFICATE_INVALID);
}

static void hosts_are_names_or_addresses(void **state) {
    struct lab *lab = *state;
    static const char *const bad[] = {"", "a b", "https://x", "host:7443", "a,DNS:b", "-x", "*x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct certificate_pair pair = {0};
        struct err err = {0};
        const struct certificate_request request = {.name = "brrd", .hosts = &bad[i], .n_hosts = 1, .days = 30};
        assert_int_equal(certificate_issue(&lab->ca, &request, &pair, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "neither a host's name nor an address"));
        assert_null(pair.key);
    }
}

static void a_pair_belongs_together(void **state) {
    struct lab *lab = *state;
    int64_t until_ms = 0, day_ms = INT64_C(24) * 3600 * 1000;
    struct err err = {0};
    assert_int_equal(certificate_check_pair(lab->client.certificate, lab->client.key, &until_ms, &err), 0);
    int64_t left = until_ms - clock_wall_ms();
    assert_true(left > 29 * day_ms && left <= 30 * day_ms);
    assert_int_equal(certificate_check_pair(lab->client.certificate, lab->ca.key, &until_ms, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "does not belong"));
    assert_int_equal(certificate_check_pair("x", lab->ca.key, &until_ms, &err), ERR_INVALID);
    assert_int_equal(certificate_check_pair(lab->client.certificate, "x", &until_ms, &err), ERR_INVALID);
    struct authorities *none = NULL;
    assert_int_equal(authorities_read("no PEM", &none, &err), ERR_INVALID);
    assert_null(none);
}

#define in_lab(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        in_lab(a_certificate_of_the_ca_is_valid),
        in_lab(a_ca_of_the_same_name_is_foreign),
        in_lab(an_expired_certificate_is_expired),
        in_lab(a_server_certificate_is_no_client_certificate),
        in_lab(garbage_is_invalid),
        in_lab(hosts_are_names_or_addresses),
        in_lab(a_pair_belongs_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
