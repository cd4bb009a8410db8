// Package turn says which node of a cluster may go down now, and why not the others.
//
// Guarantees:
//
//   - It is a pure function of facts, which are as old as they are: whoever acts on
//     the answer asks again before the next node.
//   - What is not known is never taken for well: without the facts there is no next
//     node, and the answer says which are missing.
//   - At most one node is next, and none while another one is away.
package turn
