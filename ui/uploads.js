(() => {
  // Files beside the message box: picked, dropped or pasted; each is sent as it is chosen, and shown until it is sent
  // with a message. What has arrived is the server's word (#gl-upload-facts); what is still on its way is known here.
  const AT_ONCE = 2;  // a browser has six connections to one server, and the page keeps some open
  const find = (selector) => document.querySelector(selector);
  const make = (tag, kind, text = '') => Object.assign(document.createElement(tag), {className: kind, textContent: text});

  let facts = null, told = '', nextKey = 1, held = '';
  const coming = new Map();  // by a key of ours: {key, to, file, percent, request, number, why}
  const here = () => [...coming.values()].filter((one) => one.to === facts?.to);
  const onTheWay = () => here().filter((one) => !one.why && !one.number);

  // ---- what the server says

  const read = () => {
    const now = find('#gl-upload-facts')?.dataset.facts ?? '';
    if (now === told) return;
    told = now;
    facts = now ? JSON.parse(now) : null;
    for (const one of here()) if (one.number && one.number <= facts.number) coming.delete(one.key);
    const button = find('#gl-attach');
    if (button && facts) { button.title = facts.words.attach; button.setAttribute('aria-label', facts.words.attach); }
    find('#gl-app').dataset.attach = facts ? '1' : '';
    draw();
  };

  // ---- the row of files

  const draw = () => {
    const row = find('#gl-uploads .gl-uploads');
    if (!row) return;
    const shown = facts ? [...facts.waiting.map(arrived), ...here().filter((one) => !one.number).map(underway)] : [];
    if (facts && held === facts.to && onTheWay().length) shown.push(make('span', 'gl-upload-note', facts.words.waits));
    const focused = document.activeElement?.dataset?.upload;
    row.replaceChildren(...shown);
    row.scrollTop = row.scrollHeight;
    row.setAttribute('aria-label', facts?.words.attach ?? '');
    if (focused) (row.querySelector(`[data-upload="${CSS.escape(focused)}"]`) ?? find('#gl-box textarea'))?.focus();
    find('#gl-app').dataset.attached = facts?.waiting.length ? '1' : '';
  };
  const chip = (name, size, note, key, onRemove) => {
    const item = make('div', 'gl-upload');
    const text = make('span', 'gl-upload-text');
    text.append(make('span', 'gl-upload-name', name), make('span', 'gl-upload-size', note || size));
    const remove = make('button', 'gl-upload-remove', '×');
    remove.type = 'button';
    remove.dataset.upload = key;
    remove.title = facts.words.remove.replace('{name}', name);
    remove.setAttribute('aria-label', remove.title);
    remove.addEventListener('click', onRemove);
    item.append(text, remove);
    return item;
  };
  const arrived = (one) => {
    const item = chip(one.name, one.size, one.note, one.id, () =>
      document.dispatchEvent(new CustomEvent('glassloop:do', {detail: {do: 'unattach', id: one.id}})));
    if (one.picture) item.prepend(Object.assign(make('img', ''), {src: one.picture, alt: ''}));
    return item;
  };
  const underway = (one) => {
    const progress = one.percent < 100 ? `${one.percent} %` : facts.words.checking;
    const item = chip(one.file.name, '', one.why || progress, `up-${one.key}`, () => {
      coming.delete(one.key);
      one.request?.abort();
      begin(); release(); draw();
    });
    if (one.why) { item.classList.add('gl-upload-failed'); item.setAttribute('role', 'alert'); }
    else item.style.setProperty('--done', `${one.percent}%`);
    return item;
  };

  // ---- sending them

  const add = (files) => {
    if (!facts) return;
    for (const [file, isFolder] of files) {
      const one = {key: nextKey++, to: facts.to, file, percent: 0};
      const places = facts.files - facts.waiting.length - onTheWay().length;
      if (isFolder) one.why = facts.words.folder;
      else if (file.size > facts.fileBytes) one.why = facts.words.too_large;
      else if (places <= 0) one.why = facts.words.too_many;
      coming.set(one.key, one);
    }
    begin(); draw();
  };
  const begin = () => {
    const running = [...coming.values()].filter((one) => one.request && !one.why && !one.number).length;
    const waiting = [...coming.values()].filter((one) => !one.request && !one.why);
    for (const one of waiting.slice(0, Math.max(0, AT_ONCE - running))) start(one);
  };
  const start = (one) => {
    const request = one.request = new XMLHttpRequest();
    const done = (why) => {
      if (why) one.why = facts?.words[why] ?? facts?.words.failed ?? why;
      if (one.number && facts && one.to === facts.to && one.number <= facts.number) coming.delete(one.key);
      begin(); draw(); release();
    };
    request.upload.addEventListener('progress', (event) => {
      const percent = Math.floor(100 * event.loaded / Math.max(1, event.total));
      if (percent !== one.percent) { one.percent = percent; draw(); }
    });
    request.addEventListener('load', () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* no answer of ours: it failed */ }
      one.number = answer.number;
      done(answer.number ? '' : answer.code || 'failed');
    });
    request.addEventListener('error', () => done('failed'));
    request.open('POST', `${one.to}?name=${encodeURIComponent(one.file.name)}`);
    request.setRequestHeader('x-glassloop', '1');
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.send(one.file);
  };

  // ---- a message is sent only when its files are there

  const hold = (event) => {
    for (const one of here()) if (one.why) coming.delete(one.key);  // seen, and left where it was
    if (!onTheWay().length) { draw(); return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    held = facts.to;
    draw();
  };
  const release = () => {
    if (!held || held !== facts?.to || onTheWay().length) return;
    held = '';
    if (here().some((one) => one.why)) draw();  // one of them failed: the person decides
    else find('#gl-send').click();
  };
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;  // as in page.js
    if (event.target.closest?.(event.ctrlKey || event.metaKey ? '#gl-box,#gl-must' : '#gl-box')) hold(event);
  }, true);
  document.addEventListener('click', (event) => {
    if (event.target.closest('#gl-send')) hold(event);
    if (event.target.closest('#gl-attach')) pick();
  }, true);

  // ---- pick, drop, paste

  const pick = () => {
    const input = Object.assign(document.createElement('input'), {type: 'file', multiple: true});
    input.addEventListener('change', () => { add([...input.files].map((file) => [file, false])); find('#gl-box textarea')?.focus(); });
    input.click();
  };
  const filesOf = (data) => [...data.items].filter((item) => item.kind === 'file')
    .map((item) => [item.getAsFile(), item.webkitGetAsEntry?.()?.isDirectory ?? false]).filter(([file]) => file);
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes('Files');
  let over = 0;
  const mark = (on) => {
    over = on;
    find('#gl-app')?.classList.toggle('gl-dropping', !!on && !!facts);
    find('#gl-uploads')?.setAttribute('data-drop', facts?.words.drop ?? '');
  };
  document.addEventListener('dragenter', (event) => { if (carriesFiles(event)) mark(over + 1); });
  document.addEventListener('dragleave', (event) => { if (carriesFiles(event)) mark(Math.max(0, over - 1)); });
  document.addEventListener('dragover', (event) => { if (carriesFiles(event)) event.preventDefault(); });
  document.addEventListener('drop', (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();  // else the browser leaves the page and opens the file
    event.stopPropagation();
    mark(0);
    add(filesOf(event.dataTransfer));
  }, true);
  document.addEventListener('paste', (event) => {
    const data = event.clipboardData;
    if (!data || !event.target.closest?.('#gl-box, body') || data.types.includes('text/plain')) return;  // words win
    const files = filesOf(data);
    if (files.length) { event.preventDefault(); add(files); }
  });

  // ---- begin when the page's parts are there

  new MutationObserver((_, observer) => {
    const state = find('#gl-state');
    if (!state || !find('#gl-uploads')) return;
    observer.disconnect();
    new MutationObserver(read).observe(state, {subtree: true, childList: true, attributes: true});
    read();
  }).observe(document.documentElement, {subtree: true, childList: true});
})();
