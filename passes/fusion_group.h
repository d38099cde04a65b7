/* Groups of instructions that are to become one kernel; private to the fusion pass. */
#ifndef PASSES_FUSION_GROUP_H
#define PASSES_FUSION_GROUP_H

#include "passes/fusion_shape.h"
#include "passes/pass.h"

enum {
    FUSION_MOST_MEMBERS = 256,
    FUSION_MOST_OPERANDS = 96, /* that any policy allows */
    FUSION_MOST_CODE = 512,    /* by fusion_operation_cost: LLVM takes more than linear time */
    FUSION_MOST_COPIES = 8,    /* how often the code of one member may appear in a kernel */
};

/* What a target's kernels are good at. */
struct fusion_policy {
    double kernel_cost;    /* of one more kernel, in loads of four bytes */
    double operation_cost; /* factor: of an operation of cost 1, in such loads */
    int most_operands;     /* of a kernel, and of its results */
    int most_outputs;
    /* The instruction may be computed in a kernel that reads it. */
    bool (*composes)(const struct hlo_instr *instr);
    /* The target lowers these members well as one kernel of that shape (never FUSION_SHAPE_NONE).
     */
    bool (*takes)(const struct fusion_info *info, int count, struct hlo_instr *const *members);
    /* Elementwise work on the product's results can be done by its kernel. */
    bool (*has_epilogue)(const struct hlo_instr *product);
};

struct group;

/* How often a member is computed. Members of one class are computed at the same index, once; a
 * class of its own means code of its own. */
struct fusion_use {
    int class;
    int copies;   /* of the member's code */
    double evals; /* elements computed in all */
};

struct member {
    struct hlo_instr *instr;
    struct fusion_use use;
};

struct group {
    int id;    /* in the order in which they are made */
    bool open; /* takes producers */
    bool built;
    enum fusion_shape shape;
    int count, capacity;
    struct member *members; /* the last instruction first, as the pass comes by */
    int visited;            /* stamp of the last search that came by */
    double elements;        /* of its index space: evaluations of class 0 */
    double code;            /* of its members, at most */
    /* When built: */
    int noperands, noutputs;
    struct hlo_instr **operands, **outputs;
    struct hlo_computation *body;
};

struct membership {
    struct group *group;
    int index; /* in group->members */
};

/* What the pass knows of an instruction: its data. */
struct node {
    struct hlo_instr *instr;
    int position;
    struct group *owner; /* the group that stores the value; NULL: nobody yet, or nobody needs to */
    int count, capacity;
    struct membership *in;  /* groups that compute it, the owner too */
    struct hlo_instr *with; /* what stands for it once groups are built */
};

struct fuser {
    struct pass_context *context;
    const struct fusion_policy *policy;
    struct arena *arena;   /* of this computation's work */
    struct arena *scratch; /* of one question; renewed now and then */
    int nscratch;
    struct hlo_computation *computation;
    int ngroups, capacity;
    struct group **groups;
    int stamp, classes;
};

struct node *node_of(const struct hlo_instr *instr);
/* The instruction's place in the group, or NULL. */
struct member *group_member(const struct group *group, const struct hlo_instr *instr);
struct group *group_new(struct fuser *fuser, struct hlo_instr *instr, bool open);
void group_add(struct fuser *fuser, struct group *group, struct hlo_instr *instr,
               struct fusion_use use);
/* Everything of `from` goes into `into`; from is empty then. */
void group_merge(struct fuser *fuser, struct group *into, struct group *from);
/* The shape that the groups (count of them) and `instr` (or NULL) make as one kernel. `may_store`:
 * the kernel stores instr's value where somebody else reads it. */
enum fusion_shape group_classify(struct fuser *fuser, struct group *const *groups, int count,
                                 struct hlo_instr *instr, bool may_store,
                                 const struct fusion_info **info);
/* One of the groups needs, by way of others, what one of them (or instr) makes. */
bool group_is_cyclic(struct fuser *fuser, struct group *const *groups, int count,
                     const struct hlo_instr *instr);
/* Operands from outside, each once; at most `most` are counted. In `operands` where not NULL. */
int group_operands(const struct group *group, struct hlo_instr **operands, int most);

/* ---- cost (fusion_cost.c) ---- */

/* Of an element, in simple operations; about the amount of code, too. */
double fusion_operation_cost(const struct hlo_instr *instr);
/* Costs about nothing and reads no more than it makes. */
bool instr_is_free(const struct hlo_instr *instr);
/* Of one element that is read once, in order; 1: four bytes. */
double element_load_cost(enum element_type type);
/* Cost of one element of the result from its operands, loads too. */
double instr_element_cost(const struct fuser *fuser, const struct hlo_instr *instr);
/* How the group's members that use `instr` would compute it; copies 0 where none does. */
struct fusion_use group_use_of(struct fuser *fuser, const struct group *group,
                               const struct hlo_instr *instr);

/* ---- the pass (fusion.c) ---- */

/* Fuses what runs by itself, for the target with that policy. */
bool fusion_run_with(struct pass_context *context, struct hlo_module *module,
                     const struct fusion_policy *policy);

/* ---- building (fusion_build.c) ---- */

/* Replaces the groups of two and more by fusion instructions. */
bool groups_build(struct fuser *fuser);

#endif
