#include "base/counted.h"
#include "unit/cmocka_all.h"

static void counts_agree_with_their_nouns_and_have_separators(void **state) {
    (void)state;
    assert_string_equal(counted(1, "thread").text, "1 thread");
    assert_string_equal(counted(0, "thread").text, "0 threads");
    assert_string_equal(counted(999, "").text, "999");
    assert_string_equal(counted(930087, "window").text, "930,087 windows");
    assert_string_equal(counted(-1000, "").text, "-1,000");
    assert_string_equal(counted(INT64_MIN, "").text, "-9,223,372,036,854,775,808");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_agree_with_their_nouns_and_have_separators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
