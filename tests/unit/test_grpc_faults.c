#include "daemon/rpc/grpc_faults.h"

#include "unit/cmocka_all.h"

static void a_version_names_the_faults_that_later_ones_have_fixed(void **state) {
    char text[256], cut[20];
    (void)state;
    grpc_faults("1.51.1", text, sizeof text);
    assert_string_equal(text, "CVE-2023-1428, CVE-2023-33953, CVE-2023-4785, CVE-2023-44487");
    grpc_faults("1.56.1", text, sizeof text);
    assert_string_equal(text, "CVE-2023-33953, CVE-2023-4785, CVE-2023-44487");
    grpc_faults("1.56.2", text, sizeof text);
    assert_string_equal(text, "CVE-2023-44487");
    grpc_faults("1.60.0", text, sizeof text);
    assert_string_equal(text, "");
    grpc_faults("2.0.0-dev", text, sizeof text);
    assert_string_equal(text, "");
    grpc_faults("unknown", text, sizeof text);
    assert_string_equal(text, "");
    grpc_faults("1.51.1", cut, sizeof cut);
    assert_true(strlen(cut) < sizeof cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_version_names_the_faults_that_later_ones_have_fixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
