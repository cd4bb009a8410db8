// Package remote injects the faults of a drill into real hosts over SSH, with
// nothing installed on them, and takes every one back.
//
// Guarantees:
//
//   - Nothing is changed on a host before its undo script is written there and
//     synced, and before its dead-man timer is armed. All hosts are prepared before
//     the first is touched. A controller that vanishes at any moment leaves hosts
//     that undo by themselves when the timer ends.
//   - One drill at a time holds a host: the journal's directory is made with mkdir,
//     which one of two controllers wins.
//   - Only what carries our name is touched: one nft table per fault, and the units
//     that the inventory names. A table of that name without our journal, a journal
//     of another drill, a unit that is not active: the host is refused before
//     anything was changed anywhere.
//   - A unit is started again only if this drill stopped it.
//   - Packets of the controller's own SSH connection pass every cut.
//   - A host key that is unknown or changed refuses the host. Credentials are keys
//     in files or an agent, never passwords, never arguments.
//
// [Build] is pure: a scenario and an inventory become operations and scripts as
// data. [Controller] carries them to the hosts.
//
// What does not survive: a host that loses its power forgets nft tables, which is
// the undo of a cut, but a unit that was stopped stays so unless it is enabled; the
// journal is still there, and `holdfast drill undo` starts it.
package remote
