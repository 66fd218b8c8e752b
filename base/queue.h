/* queue: intrusive lists, linked by a member `next` of their items. An item is in one list at a time; the lists own nothing and
 * lock nothing. A queue is a struct with pointers `first` and `last`, a list a pointer to its first item; NULL means empty. */
#pragma once

/* Appends an item. `next` may be a member of the item's first member, hence void. */
#define QUEUE_ADD(queue, item, next)                                                                                               \
    do {                                                                                                                           \
        (item)->next = NULL;                                                                                                       \
        if ((queue)->last)                                                                                                         \
            (queue)->last->next = (void *)(item);                                                                                  \
        else                                                                                                                       \
            (queue)->first = (item);                                                                                               \
        (queue)->last = (item);                                                                                                    \
    } while (0)

/* Takes the first item off a queue that has one. */
#define QUEUE_DROP(queue, next)                                                                                                    \
    do {                                                                                                                           \
        if (!((queue)->first = (void *)(queue)->first->next))                                                                      \
            (queue)->last = NULL;                                                                                                  \
    } while (0)

/* A chain is a list whose items have a second member, `before`: they come and go at any place without a walk. */
#define CHAIN_ADD(list, item, next, before)                                                                                        \
    do {                                                                                                                           \
        (item)->before = NULL;                                                                                                     \
        if (((item)->next = (list)))                                                                                               \
            (list)->before = (item);                                                                                               \
        (list) = (item);                                                                                                           \
    } while (0)
#define CHAIN_REMOVE(list, item, next, before)                                                                                     \
    do {                                                                                                                           \
        if ((item)->next)                                                                                                          \
            (item)->next->before = (item)->before;                                                                                 \
        if ((item)->before)                                                                                                        \
            (item)->before->next = (item)->next;                                                                                   \
        else                                                                                                                       \
            (list) = (item)->next;                                                                                                 \
    } while (0)

/* LIST_ADD_LAST appends an item; LIST_REMOVE takes it out, if it is there. Both walk the list: for a few items. */
#define LIST_ADD_LAST(list, item, next)                                                                                            \
    do {                                                                                                                           \
        __typeof__(&(list)) link_ = &(list);                                                                                       \
        while (*link_)                                                                                                             \
            link_ = &(*link_)->next;                                                                                               \
        (item)->next = NULL;                                                                                                       \
        *link_ = (item);                                                                                                           \
    } while (0)
#define LIST_REMOVE(list, item, next)                                                                                              \
    do {                                                                                                                           \
        __typeof__(&(list)) link_ = &(list);                                                                                       \
        while (*link_ && *link_ != (item))                                                                                         \
            link_ = &(*link_)->next;                                                                                               \
        if (*link_)                                                                                                                \
            *link_ = (item)->next;                                                                                                 \
    } while (0)
