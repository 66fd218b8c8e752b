#include "unit/cmocka_all.h"

#include "base/map.h"

static void values_are_found_replaced_and_removed(void **state) {
    (void)state;
    int one = 1, two = 2;
    void *old = &two;
    char key[] = "k";
    struct map *map = map_new(10);
    assert_null(map_get(map, "k"));
    assert_int_equal(map_put(map, key, &one, &old), 0);
    assert_null(old);
    key[0] = 'x'; /* keys are copied */
    assert_ptr_equal(map_get(map, "k"), &one);
    assert_int_equal(map_put(map, "k", &two, &old), 0);
    assert_ptr_equal(old, &one);
    assert_int_equal(map_count(map), 1);
    assert_ptr_equal(map_remove(map, "k"), &two);
    assert_null(map_remove(map, "k"));
    assert_null(map_get(map, "k"));
    assert_int_equal(map_count(map), 0);
    map_free(map, NULL);
    map_free(NULL, NULL);
}

static void a_full_map_refuses_new_keys_only(void **state) {
    (void)state;
    int v = 0;
    struct map *map = map_new(2);
    assert_int_equal(map_put(map, "a", &v, NULL), 0);
    assert_int_equal(map_put(map, "b", &v, NULL), 0);
    assert_int_equal(map_put(map, "c", &v, NULL), ERR_EXHAUSTED);
    assert_int_equal(map_put(map, "a", NULL, NULL), 0);
    map_remove(map, "a");
    assert_int_equal(map_put(map, "c", &v, NULL), 0);
    assert_int_equal(map_count(map), 2);
    map_free(map, NULL);
}

static void iteration_keeps_insertion_order_and_allows_removal(void **state) {
    (void)state;
    enum { N = 1000 };
    static int values[N];
    struct map *map = map_new(N);
    char key[16];
    for (int i = 0; i < N; i++) {
        values[i] = i;
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(map_put(map, key, &values[i], NULL), 0);
    }
    size_t cursor = 0;
    const char *name;
    void *value;
    int next = 0;
    while (map_next(map, &cursor, &name, &value)) {
        assert_int_equal(*(int *)value, next++);
        if (*(int *)value % 3)
            map_remove(map, name);
    }
    assert_int_equal(next, N);
    assert_int_equal(map_count(map), 334);
    cursor = 0;
    next = 0;
    while (map_next(map, &cursor, &name, &value)) {
        assert_int_equal(*(int *)value, next);
        next += 3;
    }
    map_free(map, NULL);
}

static void it_agrees_with_a_plain_table_under_random_changes(void **state) {
    (void)state;
    enum { KEYS = 97 };
    void *plain[KEYS] = {0};
    size_t live = 0;
    uint32_t x = 1;
    struct map *map = map_new(KEYS);
    for (int step = 0; step < 20000; step++) {
        char key[16];
        x = x * 1664525u + 1013904223u;
        unsigned k = (x >> 8) % KEYS;
        snprintf(key, sizeof key, "%u", k);
        if (x >> 31) {
            void *value = &plain[(x >> 4) % KEYS];
            live += plain[k] == NULL;
            plain[k] = value;
            assert_int_equal(map_put(map, key, value, NULL), 0);
        } else {
            live -= plain[k] != NULL;
            assert_ptr_equal(map_remove(map, key), plain[k]);
            plain[k] = NULL;
        }
        assert_int_equal(map_count(map), live);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        char key[16];
        snprintf(key, sizeof key, "%u", k);
        assert_ptr_equal(map_get(map, key), plain[k]);
    }
    map_free(map, NULL);
}

static int freed;
static void count_free(void *value) { freed += *(int *)value; }

static void freeing_hands_every_live_value_to_the_callback(void **state) {
    (void)state;
    int a = 1, b = 10, c = 100;
    struct map *map = map_new(3);
    map_put(map, "a", &a, NULL);
    map_put(map, "b", &b, NULL);
    map_put(map, "c", &c, NULL);
    map_remove(map, "b");
    map_free(map, count_free);
    assert_int_equal(freed, 101);
}

static void a_tally_counts_and_forgets_what_is_gone(void **state) {
    (void)state;
    struct map *map = map_new(1);
    assert_true(map_tally(map, "ana", 2) && map_tally(map, "ana", -1));
    assert_int_equal(map_tally_of(map, "ana"), 1);
    assert_false(map_tally(map, "bob", 1)); /* it is full */
    assert_int_equal(map_tally_of(map, "bob"), 0);
    assert_true(map_tally(map, "ana", -1));
    assert_int_equal(map_count(map), 0);
    map_free(map, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_replaced_and_removed),
        cmocka_unit_test(a_full_map_refuses_new_keys_only),
        cmocka_unit_test(iteration_keeps_insertion_order_and_allows_removal),
        cmocka_unit_test(it_agrees_with_a_plain_table_under_random_changes),
        cmocka_unit_test(freeing_hands_every_live_value_to_the_callback),
        cmocka_unit_test(a_tally_counts_and_forgets_what_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
