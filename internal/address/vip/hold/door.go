package hold

import (
	"fmt"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/address/gate"
)

// Door is the gate that the Holders of a process share. It makes the gate anew
// when somebody has flushed the rules. All methods are safe for concurrent use.
type Door struct {
	config gate.Config

	mu   sync.RWMutex
	gate *gate.Gate
	// made counts gates, so that two Holders that find one gone make one anew.
	made uint64
}

// OpenDoor makes the tables; see gate.New.
func OpenDoor(c gate.Config) (*Door, error) {
	g, err := gate.New(c)
	if err != nil {
		return nil, err
	}
	return &Door{config: c, gate: g, made: 1}, nil
}

// Gate returns the gate in force, and its number.
func (d *Door) Gate() (*gate.Gate, uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.gate, d.made
}

// remake makes the gate anew, unless that was done since the caller saw number.
func (d *Door) remake(number uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made != number {
		return nil
	}
	g, err := gate.New(d.config)
	if err != nil {
		return fmt.Errorf("make the gate anew: %w", err)
	}
	_ = d.gate.Close()
	d.gate = g
	d.made++
	return nil
}

// Close removes the tables.
func (d *Door) Close() error {
	g, _ := d.Gate()
	err := g.Clear()
	if closing := g.Close(); err == nil {
		err = closing
	}
	return err
}
