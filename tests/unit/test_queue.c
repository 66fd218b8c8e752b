/* Intrusive lists: the order of items stays, whichever of them are added and taken. */
#include "base/queue.h"

#include "unit/cmocka_all.h"

struct item {
    int value;
    struct item *next;
};
struct items {
    struct item *first, *last;
};

static int digits(const struct item *i) {
    int n = 0;
    for (; i; i = i->next)
        n = 10 * n + i->value;
    return n;
}

static void a_queue_gives_its_items_in_the_order_in_which_they_came(void **state) {
    struct item items[] = {{1, &items[2]}, {2, NULL}, {3, NULL}};
    struct items queue = {0};
    (void)state;
    for (int round = 0; round < 2; round++) { /* one that has become empty is as a new one */
        for (int i = 0; i < 3; i++)
            QUEUE_ADD(&queue, &items[i], next);
        assert_int_equal(digits(queue.first), 123);
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(queue.first, &items[i]);
            assert_ptr_equal(queue.last, &items[2]);
            QUEUE_DROP(&queue, next);
        }
        assert_null(queue.first);
        assert_null(queue.last);
    }
}

static void a_list_loses_the_item_that_is_removed_and_no_other(void **state) {
    struct item items[] = {{1, NULL}, {2, NULL}, {3, NULL}, {4, NULL}}, *list = NULL;
    (void)state;
    for (int i = 0; i < 3; i++)
        LIST_ADD_LAST(list, &items[i], next);
    assert_int_equal(digits(list), 123);
    LIST_REMOVE(list, &items[3], next); /* is not in it */
    assert_int_equal(digits(list), 123);
    LIST_REMOVE(list, &items[1], next);
    assert_int_equal(digits(list), 13);
    LIST_ADD_LAST(list, &items[1], next);
    LIST_REMOVE(list, &items[0], next);
    LIST_REMOVE(list, &items[1], next);
    assert_int_equal(digits(list), 3);
    LIST_REMOVE(list, &items[2], next);
    assert_null(list);
    LIST_REMOVE(list, &items[2], next);
    assert_null(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_gives_its_items_in_the_order_in_which_they_came),
        cmocka_unit_test(a_list_loses_the_item_that_is_removed_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
