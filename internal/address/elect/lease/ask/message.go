package ask

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Kind is what a message is for.
type Kind uint8

const (
	// Question asks whether the receiver reaches the API.
	Question Kind = 1 + iota
	// Answer answers a question, whose nonce it repeats.
	Answer
	// Claim says unasked that the sender holds the address and answers for it.
	Claim
	// Yield says that the sender, who holds the address in Turn and cannot tell
	// the API, is about to stop for the receiver.
	Yield
)

func (k Kind) String() string {
	switch k {
	case Question:
		return "question"
	case Answer:
		return "answer"
	case Claim:
		return "claim"
	case Yield:
		return "yield"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Flags are bits of a message.
type Flags uint8

const (
	// Urgent: the asker's deadline is near. The asked looks, rather than tell what
	// it knew last.
	Urgent Flags = 1 << iota
	// Reached: the sender reaches the API, or is not sure that it does not. An
	// answer without Reached and Holding is a promise; see package lease.
	Reached
	// Ready: the sender could hold the address.
	Ready
	// Holding: the sender holds the address.
	Holding
	// Announced: the sender holds it, and has told the network.
	Announced

	known = Urgent | Reached | Ready | Holding | Announced
)

// Nonce tells a question from all others: Incarnation differs from process to
// process, Serial from question to question.
type Nonce struct{ Incarnation, Serial uint64 }

// Message is one datagram.
type Message struct {
	Kind  Kind
	Flags Flags
	// From and To are names of peers, 1 to 63 bytes each.
	From, To string
	Nonce    Nonce
	// Turn is that of the record which the sender saw last.
	Turn uint64
	// Duration is the asker's lease.
	Duration time.Duration
}

// Reply is what answers m, with flags and turn of the one who answers.
func (m *Message) Reply(flags Flags, turn uint64) Message {
	return Message{
		Kind: Answer, Flags: flags, From: m.To, To: m.From,
		Nonce: m.Nonce, Turn: turn, Duration: m.Duration,
	}
}

// Reasons for refusing a datagram.
var (
	ErrLength  = errors.New("wrong length")
	ErrVersion = errors.New("not a message of this version")
	ErrGroup   = errors.New("of another group")
	ErrMAC     = errors.New("signed with another key")
	ErrContent = errors.New("content out of range")
)

// The layout, in network byte order: magic and version (4), kind, flags, length
// of From, length of To (1 each), group (8), nonce (8+8), turn (8), duration in
// ns (8), From, To, MAC (16).
const (
	magic      = "HFA\x01"
	headLength = 48
	macLength  = 16
	maxName    = 63
	// MaxLength bounds a datagram.
	MaxLength = headLength + 2*maxName + macLength
	// MaxDuration bounds what an asker may bind a peer for.
	MaxDuration = time.Minute
)

// Group is the short form of a group's name, by which a datagram finds its
// receiver. That it might be that of another group too is why the MAC covers the
// whole name.
type Group [8]byte

// GroupOf returns that of a name such as "kube-system/holdfast-vip".
func GroupOf(name string) (g Group) {
	sum := sha256.Sum256([]byte(name))
	copy(g[:], sum[:])
	return g
}

// GroupIn reads the group out of a datagram that was not checked yet.
func GroupIn(b []byte) (g Group, err error) {
	switch {
	case len(b) < headLength+macLength || len(b) > MaxLength:
		return g, ErrLength
	case string(b[:4]) != magic:
		return g, ErrVersion
	}
	copy(g[:], b[8:16])
	return g, nil
}

// Append adds the signed message to b. It is for a group of the given name. Names
// that are too long are cut, and then nobody understands them.
func (m *Message) Append(b []byte, group string, key []byte) []byte {
	begin := len(b)
	from, to := cut(m.From), cut(m.To)
	b = append(b, magic...)
	b = append(b, byte(m.Kind), byte(m.Flags), byte(len(from)), byte(len(to)))
	g := GroupOf(group)
	b = append(b, g[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Nonce.Incarnation)
	b = binary.BigEndian.AppendUint64(b, m.Nonce.Serial)
	b = binary.BigEndian.AppendUint64(b, m.Turn)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Duration))
	b = append(append(b, from...), to...)
	return append(b, sign(b[begin:], group, key)...)
}

func cut(name string) string { return name[:min(len(name), maxName)] }

func sign(b []byte, group string, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(b) // which cannot fail, as below
	_, _ = h.Write([]byte(group))
	return h.Sum(nil)[:macLength]
}

// Parse checks and reads a datagram. An error wraps one of the reasons above.
func Parse(b []byte, group string, key []byte) (Message, error) {
	g, err := GroupIn(b)
	if err != nil {
		return Message{}, fmt.Errorf("read message: %w", err)
	}
	if g != GroupOf(group) {
		return Message{}, fmt.Errorf("read message: %w", ErrGroup)
	}
	body, mac := b[:len(b)-macLength], b[len(b)-macLength:]
	if !hmac.Equal(mac, sign(body, group, key)) {
		return Message{}, fmt.Errorf("read message: %w", ErrMAC)
	}
	return decode(body)
}

// decode reads what the MAC has vouched for.
func decode(b []byte) (Message, error) {
	from, to := int(b[6]), int(b[7])
	if len(b) != headLength+from+to {
		return Message{}, fmt.Errorf("read message: %w", ErrLength)
	}
	m := Message{
		Kind: Kind(b[4]), Flags: Flags(b[5]),
		From:     string(b[headLength : headLength+from]),
		To:       string(b[headLength+from:]),
		Nonce:    Nonce{binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])},
		Turn:     binary.BigEndian.Uint64(b[32:]),
		Duration: time.Duration(binary.BigEndian.Uint64(b[40:])),
	}
	return m, m.check()
}

func (m *Message) check() error {
	bad := func(what string, value any) error {
		return fmt.Errorf("read message: %w: %s %v", ErrContent, what, value)
	}
	switch {
	case m.Kind < Question || m.Kind > Yield:
		return bad("kind", uint8(m.Kind))
	case m.Flags&^known != 0:
		return bad("flags", uint8(m.Flags))
	case m.From == "" || len(m.From) > maxName:
		return bad("sender", m.From)
	case m.To == "" || len(m.To) > maxName:
		return bad("receiver", m.To)
	case m.Duration < 0 || m.Duration > MaxDuration:
		return bad("duration", m.Duration)
	}
	return nil
}
