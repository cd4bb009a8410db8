package hold

import (
	"errors"
	"os"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/link"
)

func (h *Holder) virtual() bool { return h.config.Virtual.Name != "" }

// as is the hardware address that the addresses are announced with; zero is that
// of the interface.
func (h *Holder) as() announce.MAC {
	mac, _ := announce.MACFrom(h.config.Virtual.MAC)
	return mac
}

// raise sets the virtual interface up, and makes it anew if somebody has removed
// it. The ground is held.
func (h *Holder) raise() error {
	if !h.virtual() {
		return nil
	}
	err := h.links.Raise(h.config.Virtual)
	if !errors.Is(err, link.ErrNoInterface) {
		return err
	}
	if err := h.embody(); err != nil {
		return err
	}
	return h.links.Raise(h.config.Virtual)
}

// embody makes the virtual interface and gates it. The ground is held.
func (h *Holder) embody() error {
	if err := h.links.AddVirtual(h.config.Virtual); err != nil {
		return err
	}
	return h.guard()
}

// Guard gates the interface, and makes the virtual one on it, after it was made
// anew. What is held goes on.
func (h *Holder) Guard() error {
	if !h.virtual() {
		return h.guard()
	}
	h.ground.Lock()
	defer h.ground.Unlock()
	if err := h.embody(); err != nil || !h.holds() {
		return err
	}
	return h.refresh()
}

// forwards says whether the machine is a router for IPv6: a neighbour that has
// heard so, and then hears otherwise, drops the routes that lead through it
// (RFC 4861 section 7.2.5).
func forwards(iface string) bool {
	text, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + iface + "/forwarding")
	return err == nil && strings.TrimSpace(string(text)) != "0"
}
