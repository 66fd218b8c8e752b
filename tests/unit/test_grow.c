/* Growing arrays: what they hold stays, whatever the type of their counts. */

#include "base/base.h"
#include "base/grow.h"
#include "unit/cmocka_all.h"

static void what_an_array_holds_stays(void **state) {
    (void)state;
    int64_t *items = NULL;
    int n = 0, capacity = 0;
    for (; n < 1000; n++) {
        assert_true(GROW(items, n, capacity) && capacity > n);
        items[n] = 7 * n;
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(items[i], 7 * i);
    assert_int_equal(capacity, 1024);
    free(items);
    size_t many = 1, room = 0;
    char *bytes = NULL;
    assert_true(GROW(bytes, many, room) && room == GROW_FIRST);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_an_array_holds_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
