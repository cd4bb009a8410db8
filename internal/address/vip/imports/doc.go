// Package imports turns settings of keepalived and kube-vip into those of
// `holdfast vip`.
//
// # Guarantees
//
//   - Nothing is left out silently: what has an equal here is in the YAML, what
//     has none is named by a note with its line or variable, and why. What has no
//     effect on who holds an address, such as mail settings, is named too.
//   - A file that cannot be understood gives one line a mistake and no YAML.
//   - The input is read only: no file it names is opened, no script run, and
//     `include` is refused.
//   - Any input ends in a result or an error; both readers are fuzzed.
//
// # Rooms
//
// syntax.go reads keepalived's language into a tree, keepalived.go and checks.go
// turn the tree into document.go's YAML; kubevip.go does so from a manifest.
package imports
