package relay

// class is what a client's first bytes are, as far as it matters for saying
// them twice.
type class uint8

const (
	// unsaid: nothing yet.
	unsaid class = iota
	// helloPart: the beginning of a TLS ClientHello.
	helloPart
	// hello: one whole ClientHello and nothing after it. A TLS client says
	// nothing more before the server has answered (RFC 8446, 2).
	hello
	// foreign: anything else. Also what follows a ClientHello: early data
	// (RFC 8446, 2.3) must not be said twice by us.
	foreign
)

// open says that more bytes may change the class for the better.
func (c class) open() bool { return c == unsaid || c == helloPart }

const (
	recordHandshake   = 22 // RFC 8446, 5.1
	recordHeader      = 5
	recordMax         = 1<<14 + 256
	handshakeHello    = 1 // RFC 8446, 4
	handshakeHeader   = 4
	legacyMajor       = 3
	maxHello          = keptMax
	firstRecordFields = 3
)

// classify looks at the whole of kept.
func (o *opening) classify() {
	o.class = classOf(o.kept)
	if o.class != foreign {
		o.shared = len(o.kept)
	}
}

// classOf tells what b, the first bytes of a connection, is. A ClientHello may
// be spread over several records (RFC 8446, 5.1).
func classOf(b []byte) class {
	if len(b) == 0 {
		return unsaid
	}
	var m message
	for len(b) > 0 && !m.whole() {
		if !looksLikeRecord(b) {
			return foreign
		}
		if len(b) < recordHeader {
			return helloPart
		}
		size := int(b[3])<<8 | int(b[4])
		body := b[recordHeader:min(recordHeader+size, len(b))]
		if size == 0 || size > recordMax || !m.add(body) {
			return foreign
		}
		if len(body) < size {
			return helloPart
		}
		b = b[recordHeader+size:]
	}
	switch {
	case !m.whole():
		return helloPart
	case len(b) > 0:
		return foreign
	}
	return hello
}

// message measures a handshake message across records.
type message struct {
	header [handshakeHeader]byte
	said   int
}

// add takes the next part; false when it cannot be that of one ClientHello.
func (m *message) add(part []byte) bool {
	if m.said < handshakeHeader {
		copy(m.header[m.said:], part)
	}
	m.said += len(part)
	if m.said > 0 && m.header[0] != handshakeHello {
		return false
	}
	return m.said < handshakeHeader || m.said <= m.size() && m.size() <= maxHello
}

// size is that of the whole message; the header must be there.
func (m *message) size() int {
	return handshakeHeader + int(m.header[1])<<16 + int(m.header[2])<<8 + int(m.header[3])
}

func (m *message) whole() bool { return m.said >= handshakeHeader && m.said == m.size() }

// looksLikeRecord says whether b may begin a handshake record, by as many
// bytes as there are.
func looksLikeRecord(b []byte) bool {
	return b[0] == recordHandshake && (len(b) < 2 || b[1] == legacyMajor) && (len(b) < firstRecordFields || b[2] <= 4)
}
