package fact

import "fmt"

// State says how much is known of a kind of fact.
type State int

const (
	// Unknown: it could not be read, or nobody tried.
	Unknown State = iota
	// Absent: it was looked for, and there is none.
	Absent
	// Present: it was read.
	Present
)

// String is how bundles and reports spell the state.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Present:
		return "present"
	}
	return "unknown"
}

// ParseState reads what String writes.
func ParseState(text string) (State, error) {
	for _, s := range []State{Unknown, Absent, Present} {
		if s.String() == text {
			return s, nil
		}
	}
	return Unknown, fmt.Errorf("state %q: want present, absent or unknown", text)
}

// Known is a state with its reason.
type Known struct {
	State State
	// Why says of what is Unknown why.
	Why string
}

// Item is one object and where it was read.
type Item[T any] struct {
	Object *T
	At     Location
}

// Set is all objects of a kind. Items is empty unless the state is Present.
type Set[T any] struct {
	Known
	Items []Item[T]
}

// Add puts an object into the set, which is Present from then on.
func (s *Set[T]) Add(object *T, at Location) {
	s.State, s.Why = Present, ""
	s.Items = append(s.Items, Item[T]{object, at})
}

func (s *Set[T]) known() *Known { return &s.Known }
func (s *Set[T]) size() int     { return len(s.Items) }

// LackingError says that a rule cannot be evaluated, and why.
type LackingError struct{ What string }

func (e *LackingError) Error() string { return e.What }

// Lacking is the error of a rule that found it lacks a fact.
func Lacking(format string, args ...any) error {
	return &LackingError{fmt.Sprintf(format, args...)}
}

// NotApplicableError says that there is nothing for a rule to judge.
type NotApplicableError struct{ What string }

func (e *NotApplicableError) Error() string { return e.What }

// NotApplicable is the error of a rule whose matter does not occur here, which is
// known for certain: no BGP speaker, no second zone.
func NotApplicable(format string, args ...any) error {
	return &NotApplicableError{fmt.Sprintf(format, args...)}
}
